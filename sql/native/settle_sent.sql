CREATE OR REPLACE FUNCTION outbox.settle_sent(ids uuid[]) RETURNS uuid[]
LANGUAGE c VOLATILE STRICT
AS 'MODULE_PATHNAME', 'settle_sent_wrapper';
