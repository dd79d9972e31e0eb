package postgres_test

import (
	"testing"

	"github.com/errandhq/errand/backend/postgres"
)

// TestKeyTwiceInBatch: the statement itself tells the id of the job that holds a key since earlier
// in the same batch. If Enqueue had to ask again, that job might have ended by then, and both jobs
// would run.
func TestKeyTwiceInBatch(t *testing.T) {
	db, _ := fresh(t, postgres.Options{})
	before := value[int64](t, db, `INSERT INTO errand.jobs (kind, job_key) VALUES ('test', 'old') RETURNING id`)
	got := value[string](t, db, `
		SELECT string_agg(CASE WHEN duplicate THEN (live_id - $1)::text ELSE 'new' END, ' ' ORDER BY ord)
		FROM errand.insert_keyed('{default}', '{test}', E'1\x1e2\x1e3\x1e4\x1e5\x1e6', NULL, NULL, NULL, NULL,
			'{a, NULL, a, old, NULL, a}', NULL) WITH ORDINALITY AS k (id, duplicate, live_id, ord)`, before)
	if want := "new new 1 0 new 1"; got != want {
		t.Errorf("jobs with the keys a, none, a, old, none, a: got %s, want %s (ids count from the job of key old)", got, want)
	}
}
