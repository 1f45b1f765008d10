-- $1: the key
SELECT m.timeline = t.timeline AS is_known, m.longest_us, m.serve_from_us, c.now_us,
       c.now_us + (t.timeline - 1) * {timeline_step} AS floor,
       l.version, l.at_us, l.last, l.holder, l.ends_us, l.tickets
FROM {schema}.meta m
CROSS JOIN (SELECT {began} AS now_us) c
CROSS JOIN (SELECT {timeline} AS timeline) t
LEFT JOIN {schema}.line l ON l.key = $1
