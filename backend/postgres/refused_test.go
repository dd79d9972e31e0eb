package postgres_test

import (
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// refuseAtCommit makes the server refuse each insert of a job with that error at the commit, where
// it finds that its queue of notifications is full.
func refuseAtCommit(t *testing.T, db queue.DB, code, message string) {
	t.Helper()
	exec(t, db, `DROP TRIGGER IF EXISTS refuse ON errand.jobs`)
	exec(t, db, `CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION '`+message+`' USING ERRCODE = '`+code+`'; END $$`)
	exec(t, db, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON errand.jobs DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION refuse()`)
}

// TestRefusedForOtherReasons: an error that the server also has for payloads is no InvalidError if
// the payloads are short. A caller that drops jobs with bad input would drop good ones.
func TestRefusedForOtherReasons(t *testing.T) {
	t.Parallel()
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			for _, c := range []struct{ code, message string }{
				{"54000", "too many notifications in the NOTIFY queue"},
				{"54000", "number of jsonb array elements exceeds the maximum allowed (of a table of the application)"},
				{"XX000", "invalid memory alloc request size 1073741824"},
				{"23514", "my_jobs_values_check: the trial is over"},
			} {
				refuseAtCommit(t, db, c.code, c.message)
				for _, list := range [][]*queue.Job{jobs(1), jobs(3), {{Kind: "k", Key: "a"}}, {{Kind: "k", Key: "a", OnDuplicate: queue.Replace}}} {
					err := q.Enqueue(t.Context(), nil, list...)
					var invalid *queue.InvalidError
					if err == nil || errors.As(err, &invalid) || errors.Is(err, queue.ErrUnknown) {
						t.Errorf("Enqueue of %d jobs, refused with %s %s: got %v, want an error that is neither invalid input nor unknown",
							len(list), c.code, c.message, err)
					}
				}
			}
			exec(t, db, `DROP TRIGGER refuse ON errand.jobs`)
			enqueue(t, q, jobs(1)...)
			if got := claim(t, q, 10); len(got) != 1 {
				t.Errorf("claimed %d jobs, want the one that was not refused", len(got))
			}
		})
	}
}
