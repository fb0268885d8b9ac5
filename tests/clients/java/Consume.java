import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Writes an invoice for each order, once, however often its message arrives. RabbitMQ's Java client, JDBC. */
class Consume {
    private static final CountDownLatch stop = new CountDownLatch(1);
    private static final long FIRST_DELAY_MS = 500;
    private static final long LONGEST_DELAY_MS = 30_000;
    private static long delay = FIRST_DELAY_MS;

    public static void main(String[] arguments) throws InterruptedException {
        Thread consumer = Thread.currentThread();
        // Runs at SIGTERM. The message that was begun is finished. Java would end with 143 by itself.
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

    /** Until SIGTERM, or until a connection is lost. The broker delivers again what is not acknowledged. */
    private static void consume() throws Exception {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        var factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        factory.setAutomaticRecoveryEnabled(false); // the loop in main connects again, to the database as well
        try (var database = DriverManager.getConnection(jdbc, login[0], login[1]);
                var broker = factory.newConnection()) {
            database.setAutoCommit(false);
            Channel channel = broker.createChannel();
            channel.basicQos(10);
            var deliveries = new LinkedBlockingQueue<Delivery>();
            channel.basicConsume("billing", (tag, delivery) -> deliveries.add(delivery), tag -> channel.abort());
            while (stop.getCount() > 0) {
                Delivery delivery = deliveries.poll(100, TimeUnit.MILLISECONDS);
                if (delivery != null) {
                    handle(database, channel, delivery);
                    delay = FIRST_DELAY_MS;
                } else if (!channel.isOpen()) {
                    throw new IOException("the broker has closed the channel");
                }
            }
        }
    }

    private static void handle(Connection database, Channel channel, Delivery delivery) throws Exception {
        String message = delivery.getProperties().getMessageId();
        long tag = delivery.getEnvelope().getDeliveryTag();
        try {
            if (receive(database, "billing", message)) {
                insertInvoice(database, new String(delivery.getBody(), StandardCharsets.UTF_8));
            }
            database.commit();
        } catch (SQLException error) {
            if (!isFinal(error)) {
                throw error;
            }
            database.rollback();
            System.err.println("rejecting message " + message + ": " + error.getMessage());
            channel.basicReject(tag, false); // without requeue: the queue's dead-letter exchange has it
            return;
        }
        channel.basicAck(tag, false);
    }

    /**
     * Whether the message will fail every time: PostgreSQL does not take its values (class 22), or a constraint forbids
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
