-- $1: a ttl that is longer than each before
UPDATE {schema}.meta SET longest_us = $1 WHERE longest_us < $1
