package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
)

const lockDue = `
CREATE OR REPLACE FUNCTION errand.lock_due(
    queues text[], kinds text[], most integer, priorities integer[], dues timestamptz[], ids bigint[], lasts integer[], untils timestamptz[]
) RETURNS tid[] LANGUAGE plpgsql SET lock_timeout = '1ms' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    now CONSTANT timestamptz := statement_timestamp();
    found_ tid[] := '{}';
    more tid[];
    room integer := most;
    p integer; d timestamptz; i bigint;
BEGIN
    FOR q IN 1 .. cardinality(queues) LOOP
        SELECT f.priority, f.scheduled_at, f.id INTO p, d, i
        FROM errand.jobs f
        WHERE f.queue = queues[q] AND f.status = 'pending' AND f.priority <= lasts[q]
            AND (f.priority, f.scheduled_at, f.id) > (priorities[q], dues[q], ids[q])
        ORDER BY f.priority, f.scheduled_at, f.id
        LIMIT 1;
        WHILE FOUND LOOP
            IF d <= now THEN
                more := ARRAY(
                    SELECT j.ctid FROM errand.jobs j
                    WHERE j.queue = queues[q] AND j.status = 'pending' AND j.priority = p
                        AND j.scheduled_at <= least(now, untils[q])
                        AND (j.scheduled_at, j.id) >= (d, i)
                        AND (kinds IS NULL OR j.kind = ANY (kinds))
                    ORDER BY j.scheduled_at, j.id
                    LIMIT room
                    FOR UPDATE SKIP LOCKED);
                found_ := found_ || more;
                room := room - cardinality(more);
                IF room = 0 THEN RETURN found_; END IF;
            END IF;
            SELECT f.priority, f.scheduled_at, f.id INTO p, d, i
            FROM errand.jobs f
            WHERE f.queue = queues[q] AND f.status = 'pending' AND f.priority > p AND f.priority <= lasts[q]
            ORDER BY f.priority, f.scheduled_at, f.id
            LIMIT 1;
        END LOOP;
    END LOOP;
    RETURN found_;
END
$$`

const newClaim = `
UPDATE errand.jobs AS j
SET
    status = 'running',
    attempts = least(j.attempts, 1999999999) + 1,
    fence = (SELECT nextval('errand.fences')),
    locked_at = statement_timestamp(),
    locked_by = $5::text,
    locked_until = statement_timestamp() + $4::bigint * interval '1 microsecond',
    updated_at = statement_timestamp()
WHERE j.ctid = ANY ((SELECT errand.lock_due($1::text::text[], $2::text::text[], $3, $6::text::integer[], $7::text::timestamptz[], $8::text::bigint[], $10::text::integer[], $11::text::timestamptz[]))::tid[])
RETURNING
    j.id, j.queue, j.kind,
    CASE WHEN pg_column_size(j.payload) <= $9::bigint AND coalesce(pg_column_size(j.headers) <= $9::bigint, true)
        THEN j.payload END,
    j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
    least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
    CASE WHEN pg_column_size(j.headers) <= $9::bigint THEN j.headers END, coalesce(left(j.last_error, 8192), '')`

func BenchmarkSpike(b *testing.B) {
	for _, n := range []int{0, 1, 10, 1000} {
		for _, way := range []string{"old", "new"} {
			b.Run(fmt.Sprintf("batch=%d/%s", n, way), func(b *testing.B) {
				db, q := fresh(b, postgres.Options{})
				if _, err := db.Exec(lockDue); err != nil {
					b.Fatal(err)
				}
				if way == "new" {
					q.SetClaim(newClaim)
				}
				if f := os.Getenv("SPIKE"); f != "" {
					text, _ := os.ReadFile(f)
					if _, err := db.Exec(string(text)); err != nil {
						b.Fatal(err)
					}
				}
				if n == 0 {
					for b.Loop() {
						_, _ = q.Claim(b.Context(), request(1))
					}
					return
				}
				for range 5 {
					enqueue(b, q, payloads(n)...)
				}
				for b.Loop() {
					jobs, err := q.Claim(b.Context(), request(n))
					if err != nil || len(jobs) != n {
						b.Fatal(err, len(jobs))
					}
					b.StopTimer()
					if _, err := db.Exec("UPDATE errand.jobs SET status='pending', locked_by=NULL, locked_until=NULL, locked_at=NULL WHERE status='running'"); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}
