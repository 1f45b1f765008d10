SELECT l.`key` FROM {line} l
WHERE l.`key` >= {from} AND l.`key` < {after} AND left(l.`key`, {length}) = {from} AND l.ends_us > {began}
