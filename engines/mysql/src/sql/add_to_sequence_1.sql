-- Adds to a sequence. If the sum would be too large, or with 0, returns the last number.
CREATE PROCEDURE IF NOT EXISTS {add_to_sequence_1}(
    IN is_patient BOOLEAN, IN of_key VARBINARY(1024), IN added BIGINT, IN latest_us BIGINT
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE of_value, clock_us BIGINT;
    DECLARE is_done BOOLEAN DEFAULT FALSE;
{begin}
    IF added > 0 THEN
{lock_sequence}
        IF rows_found = 0 THEN
            INSERT INTO {sequence} VALUES (of_key, 0) ON DUPLICATE KEY UPDATE value = value;
        END IF;
    END IF;
    SELECT s.value INTO of_value FROM {sequence} s WHERE s.`key` = of_key;
    SET clock_us = {clock};
    IF clock_us >= latest_us THEN
        -- It arrived long after its client has given it up.
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'the request is too old';
    END IF;
    IF added > 0 AND of_value + added <= {number_max} THEN
        SET of_value = of_value + added, is_done = TRUE;
        UPDATE {sequence} s SET s.value = of_value WHERE s.`key` = of_key;
    END IF;
    COMMIT;
    SELECT is_done AS is_done, ifnull(of_value, 0) AS value;
END
