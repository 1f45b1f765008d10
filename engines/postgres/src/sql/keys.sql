-- $1: the prefix, $2: the first key after those with the prefix, or NULL
SELECT key FROM {schema}.line
WHERE key >= $1 AND ($2 IS NULL OR key < $2) AND substring(key FROM 1 FOR length($1)) = $1 AND ends_us > {began}
