CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.meta (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    format int NOT NULL,
    -- What a primary is known by: this table, which a restored dump makes again, the number of the
    -- data files, and the timeline.
    table_oid oid NOT NULL,
    system bigint NOT NULL,
    timeline int NOT NULL,
    generation int NOT NULL,
    longest_us bigint NOT NULL,
    longest_before_us bigint NOT NULL,
    rotated_us bigint NOT NULL,
    serve_from_us bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {schema}.line (
    key bytea PRIMARY KEY,
    version bigint NOT NULL,
    at_us bigint NOT NULL,
    last bigint NOT NULL,
    holder bigint NOT NULL,
    ends_us bigint NOT NULL,
    tickets bytea NOT NULL,
    longest_us bigint NOT NULL,
    -- Nothing reads it. A user that may update it alone can lock the row, and change nothing.
    for_row_locks boolean
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE IF NOT EXISTS {schema}.sequence (
    key bytea PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {schema}.count (
    key bytea PRIMARY KEY,
    value bigint NOT NULL,
    ends_us bigint NOT NULL,
    per_us bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS count_ends ON {schema}.count (ends_us);
CREATE TABLE IF NOT EXISTS {schema}.value (
    key bytea PRIMARY KEY,
    value bytea NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {schema}.meta
    (format, table_oid, system, timeline, generation, longest_us, longest_before_us, rotated_us, serve_from_us)
VALUES (1, 0, {system}, {timeline}, {timeline} - 1, 60000000, 60000000, {clock}, 0)
ON CONFLICT (is_only) DO NOTHING;
UPDATE {schema}.meta SET table_oid = tableoid WHERE table_oid = 0;
