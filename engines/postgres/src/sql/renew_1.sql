-- Renews tickets that are alone in their lines, in one commit. Returns a row for each, in order:
-- if the line has other tickets, or another transaction has its row, with the record.
CREATE OR REPLACE FUNCTION {schema}.renew_1(
    row_limit text, keys bytea[], lone_tickets bytea[], ttls_us bigint[]
)
RETURNS TABLE (is_done boolean, {found})
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    at int;
    clock_us bigint;
    number bigint;
    is_written boolean := false;
BEGIN
{settings}
    FOR at IN 1..pg_catalog.cardinality(keys) LOOP
        -- A row that another transaction has keeps the other tickets not waiting.
        PERFORM FROM {schema}.line l WHERE l.key = keys[at] AND l.tickets = lone_tickets[at]
        FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            clock_us := {clock};
            UPDATE {schema}.line l
            SET version = l.version + 1, at_us = clock_us, ends_us = clock_us + ttls_us[at],
                longest_us = greatest(l.longest_us, ttls_us[at])
            FROM {schema}.meta m
            WHERE l.key = keys[at] AND l.tickets = lone_tickets[at] AND l.ends_us > clock_us
              AND m.is_only AND {is_known}
            RETURNING l.last INTO number;
        END IF;
        IF FOUND THEN
            is_written := true;
            RETURN QUERY SELECT true, clock_us, 0::bigint, 0::bigint, 0::bigint, 0::bigint, number,
                                0::bigint, 0::bigint, ''::bytea;
        ELSE
            RETURN QUERY SELECT false, f.* FROM {schema}.read_1(row_limit, keys[at]) f;
        END IF;
    END LOOP;
    IF NOT is_written THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$body$;
