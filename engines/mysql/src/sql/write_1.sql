-- Writes a record with its notices, if it still is the one that was read and the decision is not
-- too old. Otherwise returns the record. If it serves a further ticket, and a transaction holds the
-- line for the last holder, returns only that.
CREATE PROCEDURE IF NOT EXISTS {write_1}(
    IN is_patient BOOLEAN, IN of_key VARBINARY(1024), IN seen_version BIGINT, IN seen_at_us BIGINT,
    IN seen_serve_from_us BIGINT, IN until_us BIGINT, IN serves BOOLEAN, IN new_at_us BIGINT,
    IN new_last BIGINT, IN new_holder BIGINT, IN new_ends_us BIGINT, IN new_tickets MEDIUMBLOB,
    IN new_notices MEDIUMBLOB
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE next_notice INT DEFAULT 1;
    DECLARE is_open BOOLEAN;
    DECLARE is_free BOOLEAN DEFAULT TRUE;
    DECLARE clock_us, number, of_version, of_at_us, of_longest_us BIGINT;
{begin}
    IF seen_version = 0 THEN
        INSERT INTO {line} VALUES (of_key, 0, 0, 0, 0, 0, '', 0) ON DUPLICATE KEY UPDATE version = version;
    END IF;
{lock_line}
    IF serves THEN
{free_hold}
    END IF;
    SELECT l.version, l.at_us, m.longest_us, m.serve_from_us = seen_serve_from_us AND {is_known}
    INTO of_version, of_at_us, of_longest_us, is_open
    FROM {line} l JOIN {meta} m ON m.id = 1 WHERE l.`key` = of_key;
    IF of_longest_us < new_ends_us - new_at_us THEN
        UPDATE {meta} m SET m.longest_us = new_ends_us - new_at_us
        WHERE m.id = 1 AND m.longest_us < new_ends_us - new_at_us;
        -- The update may have waited.
        SELECT m.serve_from_us = seen_serve_from_us AND {is_known} INTO is_open
        FROM {meta} m WHERE m.id = 1;
    END IF;
    SET clock_us = {clock};
    IF NOT is_free THEN
        ROLLBACK;
        SELECT 1 AS is_held;
    ELSEIF rows_found > 0 AND of_version = seen_version AND of_at_us = seen_at_us AND is_open
       AND clock_us < until_us
    THEN
        -- At least the longest ttl of the tickets, each of which was written with its whole ttl.
        UPDATE {line} l
        SET l.longest_us = greatest(
                if(l.tickets = '', 0, l.longest_us), new_ends_us - new_at_us),
            l.version = l.version + 1, l.at_us = new_at_us, l.`last` = new_last,
            l.holder = new_holder, l.ends_us = new_ends_us, l.tickets = new_tickets
        WHERE l.`key` = of_key;
        IF serves THEN
            INSERT INTO {hold} VALUES (of_key, new_holder)
            ON DUPLICATE KEY UPDATE holder = new_holder;
        END IF;
        WHILE next_notice < length(new_notices) DO
            INSERT INTO {notice} VALUES (substring(new_notices, next_notice, {notice_bytes}), clock_us)
            ON DUPLICATE KEY UPDATE at_us = clock_us;
            SET next_notice = next_notice + {notice_bytes};
        END WHILE;
        COMMIT;
        IF new_notices <> '' THEN
            BEGIN
                -- The record is written: an error of the call must not look like a refused write.
                DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
                CALL {ring_1}(new_notices);
            END;
        END IF;
        SET number = new_last;
{done}
    ELSE
{refused}
    END IF;
END
