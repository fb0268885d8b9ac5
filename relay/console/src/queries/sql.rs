//! Statements for `check` about the rights of roles.

/// Rights on the outbox that PUBLIC has and should not have, such as `SELECT on table outbox.events`, each with the
/// statement that revokes it.
pub(crate) const OPEN_TO_PUBLIC: &str = "
    SELECT privilege || ' on ' || object AS open_right, closing FROM outbox.open_to_public() ORDER BY object, privilege";

/// The same rights on the inbox, if this database has one.
pub(crate) const INBOX_OPEN_TO_PUBLIC: &str = "
    SELECT privilege || ' on ' || object AS open_right, closing FROM outbox.open_to_public('inbox')
    WHERE EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
                  WHERE n.nspname = 'inbox' AND p.proname = 'receive')
    ORDER BY object, privilege";

/// Roles with rights in the schema that no `outbox.grant_*()` gives, and these rights, such as `SELECT on table
/// outbox.events`. A role that may execute the function by which a grant is recognized counts as having that grant; the
/// owner, superusers and PUBLIC, which has its own statement, are left out.
pub(crate) const OTHER_RIGHTS: &str = "
    WITH given (known_by, functions) AS (VALUES
        ('emit', '{emit}'::text[]),
        ('settle', '{pending_page,pending_page_by_bytes,due_page,next_due,flush,health,health_with_codes,key_holders,last_settled,keep_in_doubt,events_in_doubt,settle,ensure_publication,open_to_public,sequence_state,ensure_sequence}'),
        ('failures', '{health,health_with_codes,failures,open_to_public,sequence_state}'),
        ('replay_many', '{replay,release,replay_many}'),
        ('delete_pages', '{delete_finished,delete_pages,delete_events,delete_one_by_one,maintain}')
    ), given_to AS (
        SELECT acl.grantee, g.known_by, g.functions
        FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(p.proacl) AS acl JOIN given AS g ON g.known_by = p.proname
        WHERE p.pronamespace = 'outbox'::regnamespace AND acl.grantee NOT IN (0, p.proowner)
    ), object (name, owner, acl, kind, word) AS (
        SELECT 'schema outbox', n.nspowner, n.nspacl, 'schema', NULL FROM pg_namespace AS n WHERE n.nspname = 'outbox'
        UNION ALL
        SELECT concat(CASE c.relkind WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view ' ELSE 'table ' END, c.oid::regclass), c.relowner, c.relacl,
            'relation', c.relname
        FROM pg_class AS c WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL
        SELECT format('column %I of %s', a.attname, c.oid::regclass), c.relowner, a.attacl, concat('column of ', c.relname), a.attname
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'outbox'::regnamespace AND a.attacl IS NOT NULL AND NOT a.attisdropped
        UNION ALL
        SELECT format('function %s', p.oid::regprocedure), p.proowner, p.proacl, 'function', p.proname
        FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
    )
    SELECT r.oid::regrole::text AS role,
        array_agg(acl.privilege_type || ' on ' || o.name ORDER BY o.kind DESC, o.name, acl.privilege_type) AS rights
    FROM object AS o CROSS JOIN LATERAL aclexplode(o.acl) AS acl JOIN pg_roles AS r ON r.oid = acl.grantee
    WHERE r.oid <> o.owner AND NOT r.rolsuper
      AND NOT (o.kind = 'schema' AND acl.privilege_type = 'USAGE')
      AND NOT (o.kind = 'function' AND o.word IN ('version', 'uuid_v7', 'wake_relay'))
      AND NOT EXISTS (
          SELECT FROM given_to AS g
          WHERE g.grantee = r.oid AND CASE o.kind
              WHEN 'function' THEN o.word = ANY (g.functions)
              WHEN 'relation' THEN acl.privilege_type = 'SELECT' AND (g.known_by = 'failures' AND o.word IN ('failed', 'backlog', 'audit')
                  OR g.known_by = 'replay_many' AND o.word = 'events')
              WHEN 'column of events' THEN g.known_by = 'emit' AND acl.privilege_type = 'INSERT'
                  OR g.known_by = 'failures' AND acl.privilege_type = 'SELECT' AND o.word NOT IN ('payload', 'payload_bytes', 'headers')
              ELSE false END)
    GROUP BY r.oid ORDER BY 1";
