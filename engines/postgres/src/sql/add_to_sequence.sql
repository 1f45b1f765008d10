-- $1: the lock timeout, $2: the key, $3: the sum to add
WITH {settings}
INSERT INTO {schema}.sequence AS s (key, value)
SELECT $2, $3 FROM settings WHERE settings.lock_timeout IS NOT NULL
ON CONFLICT (key) DO UPDATE SET value = s.value + $3 WHERE s.value + $3 <= {number_max}
RETURNING value
