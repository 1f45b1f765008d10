-- $1: the key
INSERT INTO {schema}.count (key, value, ends_us, per_us) VALUES ($1, 0, 0, 0)
ON CONFLICT (key) DO NOTHING
