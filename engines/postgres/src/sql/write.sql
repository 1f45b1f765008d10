-- $1: the lock timeout, $2: the key; as read: $3: the version, $4: at_us, $5: serve_from_us;
-- $6: the last moment of the decision; $7..$11: the record. Returns what read.sql returns, and the
-- tickets only if the record was not written.
WITH {settings},
locked AS MATERIALIZED (
    SELECT l.* FROM settings, {schema}.line l
    WHERE l.key = $2 AND settings.lock_timeout IS NOT NULL
    FOR {lock} OF l
),
clock AS MATERIALIZED (SELECT version, at_us, {clock} AS now_us FROM locked),
server AS MATERIALIZED (SELECT {timeline} AS timeline),
written AS (
    UPDATE {schema}.line l
    SET version = l.version + 1, at_us = $7, last = $8, holder = $9, ends_us = $10, tickets = $11
    FROM clock c, server s, {schema}.meta m
    WHERE l.key = $2 AND c.version = $3 AND c.at_us = $4 AND c.now_us < $6
      AND m.serve_from_us = $5 AND m.timeline = s.timeline
    RETURNING l.key
)
SELECT w.key IS NOT NULL AS is_written,
       m.timeline = s.timeline AS is_known, m.longest_us, m.serve_from_us, c.now_us,
       c.now_us + (s.timeline - 1) * {timeline_step} AS floor,
       l.version, l.at_us, l.last, l.holder, l.ends_us,
       CASE WHEN w.key IS NULL THEN l.tickets ELSE '' END AS tickets,
       -- Nothing was written, and the row is free for the next client at once.
       CASE WHEN w.key IS NULL THEN set_config('synchronous_commit', 'off', true) END AS commits
FROM locked l
CROSS JOIN clock c
CROSS JOIN server s
CROSS JOIN {schema}.meta m
LEFT JOIN written w ON true
