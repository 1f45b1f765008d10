-- $1: the key
SELECT value FROM {schema}.sequence WHERE key = $1
