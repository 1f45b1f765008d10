-- Joins a line without tickets. If the ticket may not be served now, returns the record.
-- `latest_us` is the last moment of the request: it may arrive long after its client has given it up.
CREATE PROCEDURE IF NOT EXISTS {join_1}(
    IN is_patient BOOLEAN, IN of_key VARBINARY(1024), IN lone_tickets MEDIUMBLOB,
    IN ttl_us BIGINT, IN is_exclusive BOOLEAN, IN latest_us BIGINT
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE clock_us, number, of_last BIGINT;
    DECLARE of_longest_us, of_serve_from_us, of_generation BIGINT;
    DECLARE of_tickets MEDIUMBLOB;
    DECLARE is_done, is_free BOOLEAN DEFAULT FALSE;
{begin}
    -- A line that is taken is not waited for.
    SELECT l.tickets INTO of_tickets FROM {line} l WHERE l.`key` = of_key;
    IF of_tickets IS NULL THEN
        -- Locks the row as well if another client has inserted it meanwhile.
        INSERT INTO {line} VALUES (of_key, 0, 0, 0, 0, 0, '', 0) ON DUPLICATE KEY UPDATE version = version;
        SET of_tickets = '';
    END IF;
    IF of_tickets = '' THEN
{lock_line}
{free_hold}
        SELECT l.`last`, l.tickets, m.longest_us, m.serve_from_us, m.generation
        INTO of_last, of_tickets, of_longest_us, of_serve_from_us, of_generation
        FROM {line} l JOIN {meta} m ON m.id = 1 AND {is_known}
        WHERE l.`key` = of_key;
        IF of_longest_us < ttl_us THEN
            UPDATE {meta} m SET m.longest_us = ttl_us WHERE m.id = 1 AND m.longest_us < ttl_us;
            -- The update may have waited.
            SELECT m.serve_from_us, m.generation INTO of_serve_from_us, of_generation
            FROM {meta} m WHERE m.id = 1 AND {is_known};
        END IF;
        SET clock_us = {clock};
        SET number = greatest(of_last + 1, clock_us + of_generation * {generation_step});
        -- Without a row, a sweep has deleted it, and nothing is locked.
        IF rows_found > 0 AND is_free AND of_tickets = '' AND number <= {number_max} AND of_serve_from_us <= clock_us
           AND clock_us < latest_us
        THEN
            UPDATE {line} l
            SET l.version = l.version + 1, l.at_us = clock_us, l.`last` = number,
                l.holder = if(is_exclusive, number, 0), l.ends_us = clock_us + ttl_us,
                l.tickets = lone_tickets, l.longest_us = ttl_us
            WHERE l.`key` = of_key;
            INSERT INTO {hold} VALUES (of_key, if(is_exclusive, number, 0))
            ON DUPLICATE KEY UPDATE holder = if(is_exclusive, number, 0);
            SET is_done = TRUE;
        END IF;
    END IF;
    IF is_done THEN
{done}
    ELSE
{refused}
    END IF;
END
