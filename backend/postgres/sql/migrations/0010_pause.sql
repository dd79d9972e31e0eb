-- pause_rule runs with its owner's rights. So a role may be allowed to pause and not to set limits.
ALTER FUNCTION errand.pause_rule(text, text, boolean, boolean) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION errand.pause_rule(text, text, boolean, boolean) FROM PUBLIC;
