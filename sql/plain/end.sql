-- What follows in the same transaction is the tool's that runs this script.
DO $$
BEGIN
    PERFORM set_config('search_path', current_setting('outbox_script.search_path'), true);
END
$$;
