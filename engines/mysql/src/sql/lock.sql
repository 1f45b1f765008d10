    IF is_patient THEN
        SELECT count(*) INTO rows_found FROM {table} t WHERE t.`key` = of_key FOR UPDATE;
    ELSE
        -- MariaDB has no `NOWAIT` in procedures.
        SELECT count(*) INTO rows_found FROM {table} t WHERE t.`key` = of_key FOR UPDATE SKIP LOCKED;
        IF rows_found = 0 THEN
            SELECT count(*) INTO rows_found FROM {table} t WHERE t.`key` = of_key;
            IF rows_found > 0 THEN
                SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'the row is locked';
            END IF;
        END IF;
    END IF;
