-- $1: the key, $2: the first value
INSERT INTO {schema}.value (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING
RETURNING value
