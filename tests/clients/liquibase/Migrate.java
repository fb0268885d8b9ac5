import liquibase.command.CommandScope;

/** Runs changelog.yaml, from the class path, on the database DATABASE_URL. Liquibase. */
class Migrate {
    public static void main(String[] arguments) throws Exception {
        new CommandScope("update")
            .addArgumentValue("url", System.getenv("DATABASE_URL"))
            .addArgumentValue("changelogFile", "changelog.yaml")
            .execute();
    }
}
