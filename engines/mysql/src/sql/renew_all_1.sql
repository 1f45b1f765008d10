-- Renews tickets that are alone in their lines, in one commit. Each renewal is the length of its key
-- (4 digits), the length of its tickets (8 digits), its ttl (20 digits), the key and the tickets.
-- Returns the number of each ticket, in order, with a space behind it: 0 if the line has other
-- tickets, or another transaction has its row.
CREATE PROCEDURE IF NOT EXISTS {renew_all_1}(IN renewals MEDIUMBLOB)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE next_byte INT DEFAULT 1;
    DECLARE key_bytes, tickets_bytes, rows_found INT;
    DECLARE clock_us, ttl_us, number BIGINT;
    DECLARE of_key VARBINARY(1024);
    DECLARE lone_tickets MEDIUMBLOB;
    DECLARE numbers BLOB DEFAULT '';
{begin}
    WHILE next_byte < length(renewals) DO
        SET key_bytes = substring(renewals, next_byte, 4),
            tickets_bytes = substring(renewals, next_byte + 4, 8),
            ttl_us = substring(renewals, next_byte + 12, 20),
            of_key = substring(renewals, next_byte + 32, key_bytes),
            lone_tickets = substring(renewals, next_byte + 32 + key_bytes, tickets_bytes),
            next_byte = next_byte + 32 + key_bytes + tickets_bytes,
            number = NULL;
        -- The row of a line with other tickets is not locked until the commit.
        SELECT count(*) INTO rows_found FROM {line} l
        WHERE l.`key` = of_key AND l.tickets = lone_tickets;
        IF rows_found > 0 THEN
            -- A row that another transaction has keeps the other tickets not waiting.
            SELECT count(*) INTO rows_found FROM {line} l WHERE l.`key` = of_key
            FOR UPDATE SKIP LOCKED;
        END IF;
        SET clock_us = {clock};
        IF rows_found > 0 THEN
            SELECT l.`last` INTO number FROM {line} l JOIN {meta} m ON m.id = 1 AND {is_known}
            WHERE l.`key` = of_key AND l.tickets = lone_tickets AND l.ends_us > clock_us;
        END IF;
        IF number IS NOT NULL THEN
            UPDATE {line} l
            SET l.version = l.version + 1, l.at_us = clock_us, l.ends_us = clock_us + ttl_us,
                l.longest_us = greatest(l.longest_us, ttl_us)
            WHERE l.`key` = of_key;
        END IF;
        SET numbers = concat(numbers, ifnull(number, 0), ' ');
    END WHILE;
    COMMIT;
    SELECT clock_us AS now_us, numbers;
END
