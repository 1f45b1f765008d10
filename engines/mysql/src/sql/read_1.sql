-- Reads the record of a line. The first client of another server begins the quarantine: a lease
-- that the server does not know may last for the longest ttl. A quarantine that is longer than that
-- began before the clock was set back, and begins again.
CREATE PROCEDURE IF NOT EXISTS {read_1}(IN is_patient BOOLEAN, IN of_key VARBINARY(1024))
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE clock_us, of_floor, of_serve_from_us BIGINT;
    DECLARE of_version, of_at_us, of_last, of_holder, of_ends_us BIGINT;
    DECLARE of_tickets MEDIUMBLOB;
{begin}
    SELECT count(*) INTO rows_found FROM {meta} m WHERE m.id = 1 AND {is_due};
    IF rows_found > 0 THEN
        SELECT count(*) INTO rows_found FROM {meta} m WHERE m.id = 1 FOR UPDATE;
        SET clock_us = {clock};
        UPDATE {meta} m
        SET m.generation = m.generation + if({is_known}, 0, 1),
            m.serve_from_us = clock_us + greatest(m.longest_us, m.longest_before_us),
            m.server = {server}
        WHERE m.id = 1 AND {is_due};
    END IF;
    SET clock_us = {clock};
    SELECT clock_us + m.generation * {generation_step}, m.serve_from_us,
           l.version, l.at_us, l.`last`, l.holder, l.ends_us, l.tickets
    INTO of_floor, of_serve_from_us,
         of_version, of_at_us, of_last, of_holder, of_ends_us, of_tickets
    FROM {meta} m LEFT JOIN {line} l ON l.`key` = of_key
    WHERE m.id = 1;
    COMMIT;
    SELECT 0 AS is_done, clock_us AS now_us, of_floor AS floor, of_serve_from_us AS serve_from_us,
           of_version AS version, of_at_us AS at_us, of_last AS `last`, of_holder AS holder,
           of_ends_us AS ends_us, of_tickets AS tickets;
END
