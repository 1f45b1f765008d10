-- Joins a line without tickets. If the ticket may not be served now, returns the record.
CREATE OR REPLACE FUNCTION {schema}.join_1(
    row_limit text, of_key bytea, lone_tickets bytea, ttl_us bigint, is_exclusive boolean,
    -- The last moment of the request: it may arrive long after its client has given it up.
    latest_us bigint
)
RETURNS TABLE (is_done boolean, {found})
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    line record;
    meta record;
    clock_us bigint;
    number bigint;
BEGIN
{settings}
    -- A line that is taken is not waited for.
    SELECT l.tickets INTO line FROM {schema}.line l WHERE l.key = of_key;
    IF NOT FOUND THEN
        INSERT INTO {schema}.line VALUES (of_key, 0, 0, 0, 0, 0, '', 0) ON CONFLICT (key) DO NOTHING;
        line.tickets := '';
    END IF;
    IF line.tickets = '' THEN
        SELECT l.last, l.tickets INTO line FROM {schema}.line l
        WHERE l.key = of_key FOR NO KEY UPDATE;
        -- The row is this transaction's, but for one that holds the line for the last holder. If
        -- that has ended meanwhile, xmax names both, and old snapshots would not see the conflict.
        PERFORM FROM {schema}.line l
        WHERE l.key = of_key AND l.tickets = '' AND l.xmax = pg_current_xact_id()::xid
        FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            clock_us := {clock};
            SELECT m.longest_us, m.serve_from_us, m.generation INTO meta
            FROM {schema}.meta m WHERE m.is_only AND {is_known};
            number := greatest(line.last + 1, clock_us + meta.generation * {generation_step});
            IF number <= {number_max} AND meta.serve_from_us <= clock_us AND clock_us < latest_us
            THEN
                IF meta.longest_us < ttl_us THEN
                    UPDATE {schema}.meta m SET longest_us = ttl_us
                    WHERE m.is_only AND m.longest_us < ttl_us;
                END IF;
                UPDATE {schema}.line l
                SET version = l.version + 1, at_us = clock_us, last = number,
                    holder = CASE WHEN is_exclusive THEN number ELSE 0 END,
                    ends_us = clock_us + ttl_us, tickets = lone_tickets, longest_us = ttl_us
                WHERE l.key = of_key;
                RETURN QUERY SELECT true, clock_us, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
                                    number, 0::bigint, 0::bigint, ''::bytea;
                RETURN;
            END IF;
        END IF;
    END IF;
{refused}
END
$body$;
