-- Every script of ours runs in one transaction, with a search_path in which nothing of others is looked up. end.sql gives back the one
-- that was set: a tool's own statements in the same transaction need it.
DO $$
DECLARE
    path pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
    IF path OPERATOR(pg_catalog.=) '' THEN
        path := '""'; -- the same, and no empty setting
    END IF;
    PERFORM pg_catalog.set_config('outbox_script.search_path', path, true);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;
-- Where each statement is a transaction of its own, the setting is gone by now.
DO $$
BEGIN
    IF pg_catalog.current_setting('outbox_script.search_path', true) OPERATOR(pg_catalog.<>) '' IS NOT TRUE THEN
        RAISE EXCEPTION 'this script is to run as one transaction: nothing was changed'
            USING ERRCODE = 'no_active_sql_transaction', HINT = 'psql --single-transaction --set ON_ERROR_STOP=1 --file ...';
    END IF;
END
$$;
-- Who goes on after that error, as psql does, would leave half of the script done: the session ends. The role that has logged in may end it,
-- one that was SET may not.
DO $$
BEGIN
    IF pg_catalog.current_setting('outbox_script.search_path', true) OPERATOR(pg_catalog.<>) '' IS NOT TRUE THEN
        RESET SESSION AUTHORIZATION;
        SET ROLE none;
        PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());
    END IF;
END
$$;
