    -- A transaction of the last holder's own keeps further tickets out by a lock on this row.
    SELECT count(*) INTO is_free FROM {hold} h WHERE h.`key` = of_key FOR UPDATE SKIP LOCKED;
    IF NOT is_free THEN
        SELECT count(*) = 0 INTO is_free FROM {hold} h WHERE h.`key` = of_key;
    END IF;
