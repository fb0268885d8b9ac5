import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

/** Writes an invoice for each order, once, however often its message arrives. RabbitMQ's Java client, JDBC. */
class Consume {
    public static void main(String[] arguments) throws Exception {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        Connection database = DriverManager.getConnection(jdbc, login[0], login[1]);
        database.setAutoCommit(false);

        var factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        var channel = factory.newConnection().createChannel();
        channel.basicQos(10);
        DeliverCallback bill = (tag, delivery) -> {
            try {
                if (receive(database, "billing", delivery.getProperties().getMessageId())) {
                    insertInvoice(database, new String(delivery.getBody(), StandardCharsets.UTF_8));
                }
                database.commit();
            } catch (SQLException error) {
                error.printStackTrace();
                System.exit(1); // PostgreSQL rolls back, and the message stays unacknowledged
            }
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        };
        channel.basicConsume("billing", bill, tag -> System.exit(1));
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
