-- $1: the name of the schema, $2: the functions. Reads no table of the schema, so that no lock on
-- one is in its way.
SELECT pg_catalog.count(DISTINCT p.proname) = pg_catalog.cardinality($2) AS has_functions
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND p.proname = ANY ($2)
