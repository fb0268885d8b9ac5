import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

/** Places an order and emits an event about it, in one transaction. JDBC. */
class Emit {
    public static void main(String[] arguments) throws SQLException {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();

        try (Connection connection = DriverManager.getConnection(jdbc, login[0], login[1])) {
            connection.setAutoCommit(false);
            long order = insertOrder(connection, "Ada", "42.50");
            String payload = String.format("{\"id\": %d, \"customer\": \"Ada\", \"total\": \"42.50\"}", order);
            String event = emit(connection, "orders.created", payload, "order", Long.toString(order));
            connection.commit(); // closing without it rolls back the order and its event
            System.out.println(event);
        }
    }

    private static long insertOrder(Connection connection, String customer, String total) throws SQLException {
        String sql = "INSERT INTO orders (customer, total) VALUES (?, ?::numeric) RETURNING id";
        try (var statement = connection.prepareStatement(sql)) {
            statement.setString(1, customer);
            statement.setString(2, total);
            var row = statement.executeQuery();
            row.next();
            return row.getLong(1);
        }
    }

    private static String emit(Connection connection, String topic, String payload, String type, String id)
            throws SQLException {
        String sql = "SELECT outbox.emit(?, ?::json, aggregate_type => ?, aggregate_id => ?)";
        try (var statement = connection.prepareStatement(sql)) {
            statement.setString(1, topic);
            statement.setString(2, payload);
            statement.setString(3, type);
            statement.setString(4, id);
            var row = statement.executeQuery();
            row.next();
            return row.getString(1);
        }
    }
}
