-- $1: the lock timeout, $2: the key, $3: the number to add, $4: the window, $5: the limit
WITH {settings},
locked AS MATERIALIZED (
    SELECT c.value, c.ends_us, c.per_us FROM settings, {schema}.count c
    WHERE c.key = $2 AND settings.lock_timeout IS NOT NULL
    FOR NO KEY UPDATE OF c
),
clock AS MATERIALIZED (SELECT *, {clock} AS now_us FROM locked),
-- A window that is over begins again. A clock that was set back does not make it longer.
running AS MATERIALIZED (
    SELECT now_us,
           CASE WHEN ends_us > now_us THEN value ELSE 0 END AS value,
           CASE WHEN ends_us > now_us THEN per_us ELSE $4 END AS per_us,
           CASE WHEN ends_us > now_us THEN least(ends_us, now_us + per_us) ELSE now_us + $4 END
               AS ends_us,
           ends_us > now_us + per_us AS is_shorter
    FROM clock
),
written AS (
    UPDATE {schema}.count c
    SET value = CASE WHEN r.value + $3 <= $5 THEN r.value + $3 ELSE r.value END,
        ends_us = r.ends_us, per_us = r.per_us
    FROM running r
    WHERE c.key = $2 AND ($3 > 0 AND r.value + $3 <= $5 OR r.is_shorter)
    RETURNING c.key
)
SELECT r.value AS before, r.ends_us - r.now_us AS left_us FROM running r
