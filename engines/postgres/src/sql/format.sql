-- Fails if a table is missing.
SELECT format FROM {schema}.meta
WHERE NOT EXISTS (
    SELECT FROM {schema}.line, {schema}.sequence, {schema}.count, {schema}.value WHERE false
)
