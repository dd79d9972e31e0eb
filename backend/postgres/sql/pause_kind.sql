-- Pauses the kind $1 if $2, and resumes it otherwise. Returns whether that changes anything. If $3, it tells all
-- workers that listen: U+0001 and the word kinds.
WITH paused AS (
    INSERT INTO errand.paused_kinds (kind)
    SELECT $1::text WHERE $2::boolean
    ON CONFLICT DO NOTHING
    RETURNING kind
), resumed AS (
    DELETE FROM errand.paused_kinds WHERE NOT $2::boolean AND kind = $1::text
    RETURNING kind
)
SELECT
    EXISTS (SELECT FROM paused) OR EXISTS (SELECT FROM resumed) AS changed,
    CASE WHEN $3::boolean THEN pg_notify('errand', E'\x01kinds')::text END;
