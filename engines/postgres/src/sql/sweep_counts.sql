DELETE FROM {schema}.count
WHERE key IN (
    SELECT key FROM {schema}.count WHERE ends_us > 0 AND ends_us <= {began}
    LIMIT 1000 FOR UPDATE SKIP LOCKED
)
