    PERFORM set_config('lock_timeout', row_limit, true),
            set_config('client_min_messages', 'warning', true),
            -- A plan from the time at which the table was small would stay.
            set_config('enable_seqscan', 'off', true),
            CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
                 THEN set_config('synchronous_commit', 'on', true) END;
