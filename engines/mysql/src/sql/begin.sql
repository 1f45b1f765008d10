    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    -- A procedure that an operator has ended leaves its transaction open.
    ROLLBACK;
    -- Another client of a pooler may have set other values.
    SET SESSION time_zone = '+00:00', completion_type = 0, sql_big_selects = 1,
        -- The least of MySQL. With 0, MariaDB fails in the commit (error 1180).
        innodb_lock_wait_timeout = 1, lock_wait_timeout = 1;
    -- A user with more rights than an application needs could write nevertheless.
    IF NOT ({writes}) THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
    END IF;
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    START TRANSACTION;
