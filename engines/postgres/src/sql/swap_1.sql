-- Replaces a value, if it is the one that was seen. Returns the value then. A value that is the new
-- one already is written again, because its first write may not have reached the disk.
CREATE OR REPLACE FUNCTION {schema}.swap_1(
    row_limit text, of_key bytea, seen bytea, new_value bytea
)
RETURNS TABLE (value bytea)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    old bytea;
BEGIN
{settings}
    LOOP
        SELECT v.value INTO old FROM {schema}.value v WHERE v.key = of_key FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        -- No row is an empty value.
        IF seen <> '' OR new_value = '' THEN
            RETURN QUERY SELECT ''::bytea;
            RETURN;
        END IF;
        INSERT INTO {schema}.value VALUES (of_key, '') ON CONFLICT (key) DO NOTHING;
    END LOOP;
    IF old IN (seen, new_value) THEN
        UPDATE {schema}.value v SET value = new_value WHERE v.key = of_key;
        old := new_value;
    END IF;
    RETURN QUERY SELECT old;
END
$body$;
