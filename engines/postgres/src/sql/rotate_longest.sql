-- $1: the least that is kept, $2: how long one is used
UPDATE {schema}.meta
SET longest_before_us = longest_us, rotated_us = {clock},
    longest_us = greatest($1, (SELECT max(ends_us - at_us) FROM {schema}.line WHERE ends_us > {began}))
WHERE rotated_us + $2 < {began}
