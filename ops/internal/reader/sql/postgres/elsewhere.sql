-- Sessions on other databases of this server that look like errand's workers: by their application, or by their last
-- statement if this role may see it. Their database, their application, and how many there are; those whose application
-- says so come first, as their last statement is a weaker sign.
SELECT datname::text, coalesce(application_name, ''), count(*)
FROM pg_stat_activity
WHERE datname <> current_database() AND backend_type = 'client backend' AND application_name <> 'errand-cli'
    AND (application_name ILIKE '%errand%' OR query LIKE '%"errand".%')
GROUP BY 1, 2 ORDER BY coalesce(application_name, '') ILIKE '%errand%' DESC, 3 DESC, 1, 2 LIMIT 3
