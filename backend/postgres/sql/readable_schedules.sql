-- Reports whether the role may read what schedules enqueue.
SELECT has_column_privilege('errand.schedules', 'job', 'SELECT')
    AND has_column_privilege('errand.schedules', 'digest', 'SELECT');
