-- Adds to a sequence. If the sum would be too large, or with 0, returns the last number.
CREATE OR REPLACE FUNCTION {schema}.add_to_sequence_1(row_limit text, of_key bytea, by bigint)
RETURNS TABLE (is_done boolean, value bigint)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
{settings}
    IF by > 0 THEN
        RETURN QUERY
        INSERT INTO {schema}.sequence AS s (key, value) VALUES (of_key, by)
        ON CONFLICT (key) DO UPDATE SET value = s.value + by WHERE s.value + by <= {number_max}
        RETURNING true, s.value;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    -- A standby behind a pooler refuses this.
    PERFORM pg_current_wal_lsn();
    RETURN QUERY
    SELECT false, coalesce((SELECT s.value FROM {schema}.sequence s WHERE s.key = of_key), 0);
END
$body$;
