    RETURN QUERY SELECT false, f.* FROM {schema}.read_1(row_limit, of_key) f;
    -- Nothing was written, and the row is free for the next client at once.
    PERFORM set_config('synchronous_commit', 'off', true);
