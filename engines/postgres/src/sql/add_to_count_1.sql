-- Adds to a windowed count, if it stays within the limit. Returns the count before, and the time
-- until the window ends.
CREATE OR REPLACE FUNCTION {schema}.add_to_count_1(
    row_limit text, of_key bytea, by bigint, window_us bigint, count_limit bigint
)
RETURNS TABLE (before bigint, left_us bigint)
LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    old record;
    new record;
    clock_us bigint;
BEGIN
{settings}
    LOOP
        SELECT c.value, c.ends_us, c.per_us INTO old FROM {schema}.count c
        WHERE c.key = of_key FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.count VALUES (of_key, 0, 0, 0) ON CONFLICT (key) DO NOTHING;
    END LOOP;
    clock_us := {clock};
    new := old;
    IF old.ends_us > clock_us THEN
        -- A clock that was set back does not make the window longer.
        new.ends_us := least(old.ends_us, clock_us + old.per_us);
    ELSE
        new.value := 0;
        new.ends_us := clock_us + window_us;
        new.per_us := window_us;
    END IF;
    before := new.value;
    left_us := new.ends_us - clock_us;
    IF by > 0 AND before + by <= count_limit THEN
        new.value := before + by;
    ELSIF old.ends_us <= clock_us THEN
        new := old;
    END IF;
    IF new IS DISTINCT FROM old THEN
        UPDATE {schema}.count c
        SET value = new.value, ends_us = new.ends_us, per_us = new.per_us WHERE c.key = of_key;
    END IF;
    RETURN NEXT;
END
$body$;
