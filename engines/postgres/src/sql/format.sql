SELECT format FROM {schema}.meta
