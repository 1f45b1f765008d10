-- Lists the keys with living tickets that begin with a prefix. `key_after`: the first key behind
-- those, or NULL.
CREATE OR REPLACE FUNCTION {schema}.keys_1(row_limit text, prefix bytea, key_after bytea)
RETURNS TABLE (key bytea)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
    PERFORM set_config('lock_timeout', row_limit, true);
    -- A standby behind a pooler refuses this.
    PERFORM pg_current_wal_lsn();
    RETURN QUERY
    SELECT l.key FROM {schema}.line l
    WHERE l.key >= prefix AND (key_after IS NULL OR l.key < key_after)
      AND substring(l.key FROM 1 FOR length(prefix)) = prefix AND l.ends_us > {began};
END
$body$;
