-- $1: the lock timeout, $2: the key, $3: the tickets, $4: the ttl, $5: whether it is exclusive,
-- $6: the last moment of the request
WITH {settings},
-- A line that is taken is not waited for. One that is free is read again after the wait.
locked AS MATERIALIZED (
    SELECT l.last FROM settings, {schema}.line l
    WHERE l.key = $2 AND l.tickets = '' AND settings.lock_timeout IS NOT NULL
    FOR UPDATE OF l
),
free AS MATERIALIZED (
    SELECT last, {clock} AS now_us FROM locked
    UNION ALL
    SELECT 0, {clock} FROM settings
    WHERE NOT EXISTS (SELECT FROM {schema}.line WHERE key = $2)
),
numbered AS MATERIALIZED (
    SELECT f.now_us, greatest(f.last + 1, f.now_us + (m.timeline - 1) * {timeline_step}) AS number
    FROM free f, {schema}.meta m
    WHERE m.timeline = {timeline} AND m.serve_from_us <= f.now_us AND m.longest_us >= $4
      AND f.now_us < $6
),
updated AS (
    UPDATE {schema}.line l
    SET version = l.version + 1, at_us = n.now_us, last = n.number, tickets = $3,
        holder = CASE WHEN $5 THEN n.number ELSE 0 END, ends_us = n.now_us + $4
    FROM numbered n, locked
    WHERE l.key = $2 AND n.number <= {number_max}
    RETURNING l.last, l.at_us
),
inserted AS (
    INSERT INTO {schema}.line (key, version, at_us, last, tickets, holder, ends_us)
    SELECT $2, 1, n.now_us, n.number, $3, CASE WHEN $5 THEN n.number ELSE 0 END, n.now_us + $4
    FROM numbered n WHERE NOT EXISTS (SELECT FROM locked)
    ON CONFLICT (key) DO NOTHING
    RETURNING last, at_us
)
SELECT last, at_us FROM updated UNION ALL SELECT last, at_us FROM inserted
