-- Reports whether the role may read payloads and headers.
SELECT has_column_privilege('errand.jobs', 'payload', 'SELECT')
    AND has_column_privilege('errand.jobs', 'headers', 'SELECT');
