-- Writes a record, if it still is the one that was read and the decision is not too old. Otherwise
-- returns the record. `is_held`: a transaction holds the line for the last holder, so a further
-- ticket may not be served.
CREATE OR REPLACE FUNCTION {schema}.write_1(
    row_limit text, of_key bytea, seen_version bigint, seen_at_us bigint,
    seen_serve_from_us bigint, until_us bigint, serves boolean,
    new_at_us bigint, new_last bigint, new_holder bigint, new_ends_us bigint, new_tickets bytea
)
RETURNS TABLE (is_held boolean, is_done boolean, {found})
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    line record;
    meta record;
    clock_us bigint;
    is_kept boolean := false;
BEGIN
{settings}
    IF seen_version = 0 THEN
        INSERT INTO {schema}.line VALUES (of_key, 0, 0, 0, 0, 0, '', 0) ON CONFLICT (key) DO NOTHING;
    END IF;
    SELECT l.version, l.at_us INTO line FROM {schema}.line l
    WHERE l.key = of_key FOR NO KEY UPDATE;
    IF serves THEN
        -- The row is this transaction's, but for one that holds the line for the last holder. If
        -- that has ended meanwhile, xmax names both, and old snapshots would not see the conflict.
        PERFORM FROM {schema}.line l
        WHERE l.key = of_key AND l.xmax = pg_current_xact_id()::xid
        FOR UPDATE SKIP LOCKED;
        is_kept := NOT FOUND;
    END IF;
    clock_us := {clock};
    SELECT m.longest_us INTO meta FROM {schema}.meta m
    WHERE m.is_only AND m.serve_from_us = seen_serve_from_us AND {is_known};
    IF FOUND AND NOT is_kept AND line.version = seen_version AND line.at_us = seen_at_us
       AND clock_us < until_us
    THEN
        IF meta.longest_us < new_ends_us - new_at_us THEN
            UPDATE {schema}.meta m SET longest_us = new_ends_us - new_at_us
            WHERE m.is_only AND m.longest_us < new_ends_us - new_at_us;
        END IF;
        -- At least the longest ttl of the tickets, each of which was written with its whole ttl.
        UPDATE {schema}.line l
        SET version = l.version + 1, at_us = new_at_us, last = new_last, holder = new_holder,
            ends_us = new_ends_us, tickets = new_tickets,
            longest_us = greatest(
                CASE WHEN l.tickets = '' THEN 0 ELSE l.longest_us END, new_ends_us - new_at_us)
        WHERE l.key = of_key;
        RETURN QUERY SELECT false, true, clock_us, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
                            new_last, 0::bigint, 0::bigint, ''::bytea;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT is_kept AND line.version IS NOT NULL, false, f.*
    FROM {schema}.read_1(row_limit, of_key) f;
    -- Nothing was written, and the row is free for the next client at once.
    PERFORM set_config('synchronous_commit', 'off', true);
END
$body$;
