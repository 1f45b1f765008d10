    -- Nothing was written.
    ROLLBACK;
    CALL {read_1}(is_patient, of_key);
