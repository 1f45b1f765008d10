-- Adds to a windowed count, if it stays within the limit. Returns the count before, and the time
-- until the window ends.
CREATE PROCEDURE IF NOT EXISTS {add_to_count_1}(
    IN is_patient BOOLEAN, IN of_key VARBINARY(1024), IN added BIGINT, IN window_us BIGINT,
    IN count_limit BIGINT, IN latest_us BIGINT
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE clock_us, old_ends_us, of_value, of_ends_us, of_per_us, value_before BIGINT;
{begin}
{lock_count}
    IF rows_found = 0 THEN
        INSERT INTO {count} VALUES (of_key, 0, 0, 0) ON DUPLICATE KEY UPDATE value = value;
    END IF;
    SELECT c.value, c.ends_us, c.per_us INTO of_value, of_ends_us, of_per_us FROM {count} c
    WHERE c.`key` = of_key;
    SET clock_us = {clock}, old_ends_us = of_ends_us;
    IF clock_us >= latest_us THEN
        -- It arrived long after its client has given it up.
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'the request is too old';
    END IF;
    IF of_ends_us > clock_us THEN
        -- A clock that was set back does not make the window longer.
        SET of_ends_us = least(of_ends_us, clock_us + of_per_us);
    ELSE
        SET of_value = 0, of_ends_us = clock_us + window_us, of_per_us = window_us;
    END IF;
    SET value_before = of_value;
    IF added > 0 AND of_value + added <= count_limit THEN
        SET of_value = of_value + added;
    END IF;
    IF old_ends_us > clock_us OR of_value > 0 THEN
        UPDATE {count} c SET c.value = of_value, c.ends_us = of_ends_us, c.per_us = of_per_us
        WHERE c.`key` = of_key;
    END IF;
    COMMIT;
    SELECT value_before AS counted, of_ends_us - clock_us AS left_us;
END
