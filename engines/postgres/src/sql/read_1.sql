-- Reads the record of a line. The first client of another primary begins the quarantine: a lease
-- that the primary does not know may last for the longest ttl. A quarantine that is longer than that
-- began before the clock was set back, and begins again.
CREATE OR REPLACE FUNCTION {schema}.read_1(row_limit text, of_key bytea)
RETURNS TABLE ({found})
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    clock_us bigint;
BEGIN
{settings}
    IF EXISTS (SELECT FROM {schema}.meta m WHERE m.is_only AND {is_due}) THEN
        PERFORM FROM {schema}.meta m WHERE m.is_only FOR UPDATE;
        clock_us := {clock};
        UPDATE {schema}.meta m
        SET table_oid = m.tableoid, system = {system}, timeline = {timeline},
            generation = CASE WHEN {is_known} THEN m.generation
                              ELSE greatest(m.generation + 1, {timeline} - 1) END,
            serve_from_us = clock_us + greatest(m.longest_us, m.longest_before_us)
        WHERE m.is_only AND {is_due};
        RAISE WARNING 'tenure: another primary serves, or its clock was set back: no ticket is served for the longest ttl';
    END IF;
    clock_us := {clock};
    RETURN QUERY
    SELECT clock_us, clock_us + m.generation * {generation_step}, m.serve_from_us,
           l.version, l.at_us, l.last, l.holder, l.ends_us, l.tickets
    FROM {schema}.meta m LEFT JOIN {schema}.line l ON l.key = of_key
    WHERE m.is_only;
END
$body$;
