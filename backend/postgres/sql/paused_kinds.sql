-- Returns the paused kinds.
SELECT kind FROM errand.paused_kinds ORDER BY kind;
