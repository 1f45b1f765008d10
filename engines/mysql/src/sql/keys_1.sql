-- Returns the keys with this prefix whose lines have tickets.
CREATE PROCEDURE IF NOT EXISTS {keys_1}(IN of_prefix VARBINARY(1024))
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
{begin}
    -- All keys with the prefix are below it with 0xff, a byte that UTF-8 never has. So the primary
    -- key limits the search.
    SELECT l.`key` FROM {line} l
    WHERE l.`key` >= of_prefix AND l.`key` < concat(of_prefix, x'ff')
      AND left(l.`key`, length(of_prefix)) = of_prefix AND l.ends_us > {began};
    COMMIT;
END
