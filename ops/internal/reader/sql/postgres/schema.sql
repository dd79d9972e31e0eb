-- The newest migration that has run.
SELECT coalesce(max(version), 0) FROM errand.migrations
