now_us bigint, floor bigint, serve_from_us bigint, version bigint, at_us bigint, last bigint,
    holder bigint, ends_us bigint, tickets bytea
