-- Removes the only ticket of a line. If the line has others, returns the record.
CREATE OR REPLACE FUNCTION {schema}.leave_1(row_limit text, of_key bytea, lone_tickets bytea)
RETURNS TABLE (is_done boolean, {found})
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    clock_us bigint;
    number bigint;
BEGIN
{settings}
    PERFORM FROM {schema}.line l WHERE l.key = of_key AND l.tickets = lone_tickets
    FOR NO KEY UPDATE;
    -- Without the lock, the update could wait for the row after the clock was read.
    IF FOUND THEN
        clock_us := {clock};
        UPDATE {schema}.line l
        SET version = l.version + 1, at_us = clock_us, holder = 0, ends_us = 0, tickets = ''
        FROM {schema}.meta m
        WHERE l.key = of_key AND l.tickets = lone_tickets AND l.ends_us > clock_us
          AND m.is_only AND {is_known}
        RETURNING l.last INTO number;
    END IF;
    IF FOUND THEN
        RETURN QUERY SELECT true, clock_us, 0::bigint, 0::bigint, 0::bigint, 0::bigint, number,
                            0::bigint, 0::bigint, ''::bytea;
        RETURN;
    END IF;
{refused}
END
$body$;
