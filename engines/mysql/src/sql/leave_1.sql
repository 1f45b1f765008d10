-- Removes the only ticket of a line. If the line has others, returns the record.
CREATE PROCEDURE IF NOT EXISTS {leave_1}(
    IN is_patient BOOLEAN, IN of_key VARBINARY(1024), IN lone_tickets MEDIUMBLOB
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE clock_us, number BIGINT;
{begin}
{lock_line}
    SET clock_us = {clock};
    SELECT l.`last` INTO number FROM {line} l JOIN {meta} m ON m.id = 1 AND {is_known}
    WHERE l.`key` = of_key AND l.tickets = lone_tickets AND l.ends_us > clock_us;
    IF rows_found > 0 AND number IS NOT NULL THEN
        UPDATE {line} l
        SET l.version = l.version + 1, l.at_us = clock_us, l.holder = 0, l.ends_us = 0,
            l.tickets = ''
        WHERE l.`key` = of_key;
{done}
    ELSE
{refused}
    END IF;
END
