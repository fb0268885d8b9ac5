import org.flywaydb.core.Flyway;

/** Runs the migrations in the folder FLYWAY_LOCATIONS on the database FLYWAY_URL. Flyway. */
class Migrate {
    public static void main(String[] arguments) {
        Flyway.configure().envVars().load().migrate();
    }
}
