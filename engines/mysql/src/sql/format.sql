SELECT m.format, {began} AS now_us,
       (SELECT count(*) FROM information_schema.ROUTINES r
        WHERE r.ROUTINE_SCHEMA = database() AND r.ROUTINE_NAME IN ({procedures})) AS procedures
FROM {meta} m
WHERE m.id = 1 AND NOT EXISTS (
    SELECT 1 FROM {line}, {hold}, {notice}, {sequence}, {count}, {value} WHERE FALSE
)
