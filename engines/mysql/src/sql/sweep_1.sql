-- Deletes lines without tickets that were idle, windowed counts that are over, empty values, and
-- notices that were not read: at most {sweep_max} of each. Returns the largest number of rows that were deleted from one table. Forgets
-- the longest ttl once it was not used for `longest_kept_us`.
CREATE PROCEDURE IF NOT EXISTS {sweep_1}(
    IN is_patient BOOLEAN, IN idle_us BIGINT, IN longest_min_us BIGINT, IN longest_kept_us BIGINT
)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE clock_us, of_floor BIGINT;
    DECLARE of_key VARBINARY(1024);
    DECLARE of_notice VARBINARY({notice_bytes});
    DECLARE rows_found INT;
    DECLARE lines_deleted, counts_deleted, values_deleted, notices_deleted INT DEFAULT 0;
    DECLARE is_over, is_free BOOLEAN DEFAULT FALSE;
    DECLARE old_lines CURSOR FOR SELECT l.`key` FROM {line} l
        WHERE l.at_us + idle_us <= clock_us AND l.ends_us <= clock_us AND l.`last` < of_floor
        LIMIT {sweep_max};
    DECLARE old_counts CURSOR FOR
        SELECT c.`key` FROM {count} c WHERE c.ends_us <= clock_us LIMIT {sweep_max};
    DECLARE old_values CURSOR FOR
        SELECT v.`key` FROM {value} v WHERE v.value = '' LIMIT {sweep_max};
    DECLARE old_notices CURSOR FOR
        SELECT n.notice FROM {notice} n WHERE n.at_us + idle_us <= clock_us LIMIT {sweep_max};
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
{begin}
    SET clock_us = {clock};
    SELECT clock_us + m.generation * {generation_step} INTO of_floor FROM {meta} m WHERE m.id = 1;
    OPEN old_lines;
    SET is_over = FALSE;
    FETCH old_lines INTO of_key;
    WHILE NOT is_over DO
        -- A row that another transaction has is in use.
        SELECT count(*) INTO rows_found FROM {line} l
        WHERE l.`key` = of_key AND l.at_us + idle_us <= clock_us AND l.ends_us <= clock_us
        FOR UPDATE SKIP LOCKED;
        IF rows_found > 0 THEN
{free_hold}
        END IF;
        IF rows_found > 0 AND is_free THEN
            DELETE FROM {line} WHERE `key` = of_key;
            DELETE FROM {hold} WHERE `key` = of_key;
            SET lines_deleted = lines_deleted + 1;
        END IF;
        FETCH old_lines INTO of_key;
    END WHILE;
    CLOSE old_lines;
    COMMIT AND CHAIN;
    OPEN old_counts;
    SET is_over = FALSE;
    FETCH old_counts INTO of_key;
    WHILE NOT is_over DO
        SELECT count(*) INTO rows_found FROM {count} c
        WHERE c.`key` = of_key AND c.ends_us <= clock_us FOR UPDATE SKIP LOCKED;
        IF rows_found > 0 THEN
            DELETE FROM {count} WHERE `key` = of_key;
            SET counts_deleted = counts_deleted + 1;
        END IF;
        FETCH old_counts INTO of_key;
    END WHILE;
    CLOSE old_counts;
    COMMIT AND CHAIN;
    OPEN old_values;
    SET is_over = FALSE;
    FETCH old_values INTO of_key;
    WHILE NOT is_over DO
        SELECT count(*) INTO rows_found FROM {value} v
        WHERE v.`key` = of_key AND v.value = '' FOR UPDATE SKIP LOCKED;
        IF rows_found > 0 THEN
            DELETE FROM {value} WHERE `key` = of_key;
            SET values_deleted = values_deleted + 1;
        END IF;
        FETCH old_values INTO of_key;
    END WHILE;
    CLOSE old_values;
    COMMIT AND CHAIN;
    UPDATE {meta} m
    SET m.longest_before_us = m.longest_us, m.rotated_us = clock_us,
        m.longest_us = greatest(longest_min_us, ifnull((
            SELECT max(l.longest_us) FROM {line} l WHERE l.ends_us > clock_us), 0))
    WHERE m.id = 1 AND m.rotated_us + longest_kept_us < clock_us
      -- The end of a quarantine may not fall.
      AND m.serve_from_us <= clock_us;
    COMMIT;
    -- Notices to clients that have gone.
    OPEN old_notices;
    SET is_over = FALSE;
    FETCH old_notices INTO of_notice;
    WHILE NOT is_over DO
        SELECT count(*) INTO rows_found FROM {notice} n
        WHERE n.notice = of_notice FOR UPDATE SKIP LOCKED;
        IF rows_found > 0 THEN
            DELETE FROM {notice} WHERE notice = of_notice;
            SET notices_deleted = notices_deleted + 1;
        END IF;
        FETCH old_notices INTO of_notice;
    END WHILE;
    CLOSE old_notices;
    COMMIT;
    SELECT greatest(lines_deleted, counts_deleted, values_deleted, notices_deleted) AS deleted;
END
