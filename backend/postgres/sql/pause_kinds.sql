-- Pauses the kinds $1, or resumes them if $2. If $3, it tells all workers that listen: U+0001 and the word kinds.
WITH paused AS (
    INSERT INTO errand.paused_kinds (kind)
    SELECT DISTINCT k.kind FROM unnest($1::text::text[]) AS k (kind) WHERE NOT $2::boolean
    ORDER BY k.kind
    ON CONFLICT DO NOTHING
), resumed AS (
    DELETE FROM errand.paused_kinds WHERE $2::boolean AND kind = ANY ($1::text::text[])
)
SELECT CASE WHEN $3::boolean THEN pg_notify('errand', E'\x01kinds')::text END;
