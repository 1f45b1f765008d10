        COMMIT;
        SELECT 1 AS is_done, clock_us AS now_us, 0 AS floor, 0 AS serve_from_us, NULL AS version,
               0 AS at_us, number AS `last`, 0 AS holder, 0 AS ends_us, '' AS tickets;
