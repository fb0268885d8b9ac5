import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints the first values of a topic's first partition, one a line, as Kafka's own client reads them. */
class Consume {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        var partition = new TopicPartition(arguments[1], 0);
        long count = Long.parseLong(arguments[2]);
        var text = new StringDeserializer();
        try (var consumer = new KafkaConsumer<String, String>(settings, text, text)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (count > 0) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.value());
                    count--;
                }
            }
        }
    }
}
