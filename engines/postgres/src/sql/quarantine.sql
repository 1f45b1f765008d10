-- The first client that meets another timeline: a lease that the server has forgotten may last for
-- the longest ttl.
WITH locked AS MATERIALIZED (SELECT timeline FROM {schema}.meta FOR UPDATE),
clock AS MATERIALIZED (SELECT timeline, {clock} AS now_us FROM locked)
UPDATE {schema}.meta m
SET timeline = {timeline},
    serve_from_us = greatest(m.serve_from_us, c.now_us + greatest(m.longest_us, m.longest_before_us))
FROM clock c
WHERE c.timeline <> {timeline}
