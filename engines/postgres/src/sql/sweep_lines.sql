-- $1: how long a record was idle
DELETE FROM {schema}.line
WHERE key IN (
    SELECT l.key FROM {schema}.line l, {schema}.meta m
    WHERE l.at_us + $1 <= {began} AND l.ends_us <= {began}
      AND l.last < {began} + (m.timeline - 1) * {timeline_step}
    LIMIT {sweep_max} FOR UPDATE OF l SKIP LOCKED
)
RETURNING true
