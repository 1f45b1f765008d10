DELETE FROM {schema}.count
WHERE key IN (
    SELECT key FROM {schema}.count WHERE ends_us <= {began} LIMIT {sweep_max} FOR UPDATE SKIP LOCKED
)
RETURNING true
