-- $1: the lock timeout, $2: the key; as read: $3: the version, $4: at_us, $5: serve_from_us;
-- $6: the last moment of the decision; $7..$11: the record
WITH {settings},
locked AS MATERIALIZED (
    SELECT l.version, l.at_us FROM settings, {schema}.line l
    WHERE l.key = $2 AND settings.lock_timeout IS NOT NULL
    FOR {lock} OF l
),
clock AS MATERIALIZED (SELECT version, at_us, {clock} AS now_us FROM locked)
UPDATE {schema}.line l
SET version = l.version + 1, at_us = $7, last = $8, holder = $9, ends_us = $10, tickets = $11
FROM clock c, {schema}.meta m
WHERE l.key = $2 AND c.version = $3 AND c.at_us = $4 AND c.now_us < $6
  AND m.serve_from_us = $5 AND m.timeline = {timeline}
RETURNING l.version
