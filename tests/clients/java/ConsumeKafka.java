import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes an invoice for each order, once, however often its record arrives. Kafka's Java client, JDBC. */
class ConsumeKafka {
    private static final CountDownLatch stop = new CountDownLatch(1);
    private static final long FIRST_DELAY_MS = 500;
    private static final long LONGEST_DELAY_MS = 30_000;
    private static long delay = FIRST_DELAY_MS;

    public static void main(String[] arguments) throws InterruptedException {
        Thread consumer = Thread.currentThread();
        // Runs at SIGTERM. The records that were read are finished. Java would end with 143 by itself.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop.countDown();
            try {
                consumer.join();
            } catch (InterruptedException nobodyInterrupts) {
                Runtime.getRuntime().halt(1);
            }
            Runtime.getRuntime().halt(0);
        }));
        while (stop.getCount() > 0) {
            try {
                consume();
            } catch (Exception error) {
                System.err.println(error + "; connecting again in " + delay + " ms");
                stop.await(delay, TimeUnit.MILLISECONDS);
                delay = Math.min(2 * delay, LONGEST_DELAY_MS);
            }
        }
    }

    /** Until SIGTERM, or until the database is lost. Kafka's client connects to the brokers again by itself. */
    private static void consume() throws Exception {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        String brokers = System.getenv("KAFKA_BROKERS");
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", brokers,
            "group.id", "billing",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
        var read = new ByteArrayDeserializer();
        var write = new ByteArraySerializer();
        try (Connection database = DriverManager.getConnection(jdbc, login[0], login[1]);
                var dead = new KafkaProducer<>(Map.of("bootstrap.servers", brokers), write, write);
                var consumer = new KafkaConsumer<>(settings, read, read)) {
            database.setAutoCommit(false);
            consumer.subscribe(List.of("orders.created"));
            while (stop.getCount() > 0) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    handle(database, dead, record);
                    delay = FIRST_DELAY_MS;
                }
                consumer.commitSync();
            }
        }
    }

    private static void handle(
            Connection database, KafkaProducer<byte[], byte[]> dead, ConsumerRecord<byte[], byte[]> record)
            throws Exception {
        var id = record.headers().lastHeader("id");
        try {
            if (receive(database, "billing", id == null ? null : text(id.value()))) {
                insertInvoice(database, text(record.value()));
            }
            database.commit(); // without it, the group's offset stays before the record
        } catch (SQLException error) {
            if (!isFinal(error)) {
                throw error;
            }
            database.rollback();
            System.err.println("putting aside " + record.topic() + "-" + record.partition() + " at "
                + record.offset() + ": " + error.getMessage());
            // Kafka has no dead-letter exchange: the record goes to a topic for those that somebody has to look at.
            dead.send(new ProducerRecord<>("billing.dead", null, record.key(), record.value(), record.headers())).get();
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /**
     * Whether the record will fail every time: PostgreSQL does not take its values (class 22), or a constraint forbids
     * them (23). Anything else is a fault of the moment.
     */
    private static boolean isFinal(SQLException error) {
        String state = String.valueOf(error.getSQLState());
        return state.startsWith("22") || state.startsWith("23");
    }

    private static boolean receive(Connection database, String consumer, String message) throws SQLException {
        String sql = "SELECT inbox.receive(?, ?::uuid)";
        try (var statement = database.prepareStatement(sql)) {
            statement.setString(1, consumer);
            statement.setString(2, message);
            var row = statement.executeQuery();
            row.next();
            return row.getBoolean(1);
        }
    }

    private static void insertInvoice(Connection database, String order) throws SQLException {
        String sql = "INSERT INTO invoices (order_id, total)"
            + " SELECT (o ->> 'id')::bigint, (o ->> 'total')::numeric FROM CAST(? AS jsonb) AS o";
        try (var statement = database.prepareStatement(sql)) {
            statement.setString(1, order);
            statement.executeUpdate();
        }
    }
}
