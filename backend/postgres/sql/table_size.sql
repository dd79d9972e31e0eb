-- Returns how many bytes the table of jobs takes without its indexes.
SELECT pg_relation_size('errand.jobs');
