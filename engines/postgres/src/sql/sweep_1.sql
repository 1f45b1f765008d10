-- Deletes lines without tickets that were idle, windowed counts that are over, and empty values: at
-- most {sweep_max} of each. Returns the largest number of rows that were deleted from one table.
-- Forgets the longest ttl once it was not used for `longest_kept_us`.
CREATE OR REPLACE FUNCTION {schema}.sweep_1(
    row_limit text, idle_us bigint, longest_min_us bigint, longest_kept_us bigint
)
RETURNS TABLE (deleted bigint)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    clock_us bigint := {clock};
    rows bigint;
BEGIN
    PERFORM set_config('lock_timeout', row_limit, true);
    DELETE FROM {schema}.line WHERE key IN (
        SELECT l.key FROM {schema}.line l, {schema}.meta m
        WHERE l.at_us + idle_us <= clock_us AND l.ends_us <= clock_us
          AND l.last < clock_us + m.generation * {generation_step}
        LIMIT {sweep_max} FOR UPDATE OF l SKIP LOCKED
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    DELETE FROM {schema}.count WHERE key IN (
        SELECT c.key FROM {schema}.count c WHERE c.ends_us <= clock_us
        LIMIT {sweep_max} FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS rows = ROW_COUNT;
    deleted := greatest(deleted, rows);
    DELETE FROM {schema}.value WHERE key IN (
        SELECT v.key FROM {schema}.value v WHERE v.value = ''
        LIMIT {sweep_max} FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS rows = ROW_COUNT;
    deleted := greatest(deleted, rows);
    UPDATE {schema}.meta m
    SET longest_before_us = m.longest_us, rotated_us = clock_us,
        longest_us = greatest(longest_min_us, (
            SELECT max(l.longest_us) FROM {schema}.line l WHERE l.ends_us > clock_us))
    WHERE m.rotated_us + longest_kept_us < clock_us
      -- The end of a quarantine may not fall.
      AND m.serve_from_us <= clock_us;
    RETURN NEXT;
END
$body$;
