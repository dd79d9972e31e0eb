-- Removes what the migrations have made, with the indexes of the tables, and nothing else.
DROP TABLE IF EXISTS errand_jobs;
DROP TABLE IF EXISTS errand_fences;
DROP TABLE IF EXISTS errand_jobs_archive;
DROP TABLE IF EXISTS errand_results;
DROP TABLE IF EXISTS errand_rules;
DROP TABLE IF EXISTS errand_tokens;
DROP TABLE IF EXISTS errand_paused_kinds;
DROP TABLE IF EXISTS errand_schedules;
DROP TABLE IF EXISTS errand_workers;
DROP TABLE IF EXISTS errand_audit;
DROP TABLE IF EXISTS errand_stats;
DROP TABLE IF EXISTS errand_received;
DROP TABLE IF EXISTS errand_migrations;
