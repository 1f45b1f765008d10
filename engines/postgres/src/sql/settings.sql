settings AS MATERIALIZED (
    SELECT set_config('lock_timeout', $1, true) AS lock_timeout,
           set_config('client_min_messages', 'warning', true) AS messages,
           CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
                THEN set_config('synchronous_commit', 'on', true) END AS synchronous_commit
)
