-- $1: the lock timeout, $2: the key, $3: the value as seen, $4: the new value. A value that is the
-- new one already is written again, because its first write may not have reached the disk.
WITH {settings},
locked AS MATERIALIZED (
    SELECT v.value FROM settings, {schema}.value v
    WHERE v.key = $2 AND settings.lock_timeout IS NOT NULL
    FOR NO KEY UPDATE OF v
),
written AS (
    UPDATE {schema}.value v SET value = $4 FROM locked l
    WHERE v.key = $2 AND l.value IN ($3, $4)
    RETURNING v.value
)
SELECT coalesce((SELECT value FROM written), (SELECT value FROM locked)) AS value FROM locked
