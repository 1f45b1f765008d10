-- As write.sql, for a line without a record.
WITH {settings}
INSERT INTO {schema}.line (key, version, at_us, last, holder, ends_us, tickets)
SELECT $2, $3 + 1, $7, $8, $9, $10, $11
FROM settings, {schema}.meta m
WHERE $4 = 0 AND {clock} < $6 AND m.serve_from_us = $5 AND m.timeline = {timeline}
  AND settings.lock_timeout IS NOT NULL
ON CONFLICT (key) DO NOTHING
RETURNING version
