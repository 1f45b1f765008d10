-- Returns the format of the tables, and the clock. Fails if a table is missing.
CREATE OR REPLACE FUNCTION {schema}.format_1(row_limit text)
RETURNS TABLE (format int, now_us bigint)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
    PERFORM set_config('lock_timeout', row_limit, true);
    RETURN QUERY
    SELECT m.format, {clock} FROM {schema}.meta m
    WHERE NOT EXISTS (
        SELECT FROM {schema}.line, {schema}.sequence, {schema}.count, {schema}.value WHERE false
    );
END
$body$;
