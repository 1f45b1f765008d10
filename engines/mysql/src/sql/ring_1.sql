-- Ends the sleep of the clients that notices are for. The notices are committed before, so nothing
-- depends on it: a client whose sleep cannot be ended reads them when it is over.
CREATE PROCEDURE IF NOT EXISTS {ring_1}(IN new_notices MEDIUMBLOB)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
    DECLARE of_id BIGINT UNSIGNED;
    DECLARE is_over BOOLEAN DEFAULT FALSE;
    -- MariaDB gives each statement a number of its own, so no other one can be hit. In MySQL it is
    -- the number of the connection, which the same client has until the server stops.
    DECLARE sleeping CURSOR FOR
        SELECT /*!80000 p.ID */ /*M! p.QUERY_ID */ FROM information_schema.PROCESSLIST p
        WHERE p.COMMAND = 'Query' AND left(p.INFO, length('{listens}')) = '{listens}'
          AND instr(new_notices, substring(p.INFO, length('{listens}') + 1, 16)) > 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    OPEN sleeping;
    FETCH sleeping INTO of_id;
    WHILE NOT is_over DO
        BEGIN
            -- It has ended meanwhile, or belongs to another user.
            DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
            KILL QUERY /*M! ID */ of_id;
        END;
        FETCH sleeping INTO of_id;
    END WHILE;
    CLOSE sleeping;
END
