-- Replaces a value, if it is the one that was seen. Returns the value then. A value that is the new
-- one already is written again, because its first write may not have reached the disk.
CREATE PROCEDURE IF NOT EXISTS {swap_1}(
    IN is_patient BOOLEAN, IN of_key VARBINARY(1024), IN seen MEDIUMBLOB, IN new_value MEDIUMBLOB
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE rows_found INT;
    DECLARE of_value MEDIUMBLOB DEFAULT '';
{begin}
{lock_value}
    IF rows_found = 0 AND seen = '' AND new_value <> '' THEN
        INSERT INTO {value} VALUES (of_key, 0, '') ON DUPLICATE KEY UPDATE version = version;
    END IF;
    -- No row is an empty value.
    SELECT v.value INTO of_value FROM {value} v WHERE v.`key` = of_key;
    IF of_value IN (seen, new_value) THEN
        UPDATE {value} v SET v.version = v.version + 1, v.value = new_value
        WHERE v.`key` = of_key AND v.value = of_value;
        IF row_count() > 0 THEN
            SET of_value = new_value;
        END IF;
    END IF;
    COMMIT;
    SELECT of_value AS value;
END
