-- $1: the lock timeout, $2: the key, $3: the first value
WITH {settings}
INSERT INTO {schema}.value (key, value)
SELECT $2, $3 FROM settings WHERE settings.lock_timeout IS NOT NULL
ON CONFLICT (key) DO NOTHING
RETURNING value
