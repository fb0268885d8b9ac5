import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Writes an invoice for each order, once, however often its record arrives. Kafka's Java client, JDBC. */
class ConsumeKafka {
    public static void main(String[] arguments) throws Exception {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        Connection database = DriverManager.getConnection(jdbc, login[0], login[1]);
        database.setAutoCommit(false);

        Map<String, Object> settings = Map.of(
            "bootstrap.servers", System.getenv("KAFKA_BROKERS"),
            "group.id", "billing",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
        var text = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of("orders.created"));
            while (true) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    byte[] id = record.headers().lastHeader("id").value();
                    if (receive(database, "billing", new String(id, StandardCharsets.UTF_8))) {
                        insertInvoice(database, record.value());
                    }
                    database.commit(); // without it, the group's offset stays before the record
                }
                consumer.commitSync();
            }
        }
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
