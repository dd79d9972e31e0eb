package ops_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// TestObserver: the observing role of docs/roles.sql may ask both, here over lib/pq. They find the
// same, and say what the role cannot know.
func TestObserver(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := openPQ(t, dsn)
	prefix := strings.ReplaceAll(database(t, db), "errand_test_", "ops_") + "_"
	text, err := os.ReadFile("../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, strings.ReplaceAll(string(text), "errand_", prefix))
	t.Cleanup(func() {
		if _, err := db.Exec(`DO $$
			DECLARE role regrole;
			BEGIN
				FOR role IN SELECT oid::regrole FROM pg_roles WHERE starts_with(rolname, '` + prefix + `') LOOP
					EXECUTE format('REASSIGN OWNED BY %s TO CURRENT_USER', role);
					EXECUTE format('DROP OWNED BY %s', role);
					EXECUTE format('DROP ROLE %s', role);
				END LOOP;
			END $$`); err != nil {
			t.Error(err)
		}
	})
	q := backend(t, db, postgres.Options{})
	report(t, q, idle)
	id := enqueue(t, q, queue.Job{})
	observer := backend(t, openPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	for _, q := range []*postgres.Backend{q, observer} {
		if found := examine(t, q, ops.Options{}); len(found) > 0 {
			t.Errorf("found %v", found)
		}
		wantReason(t, explain(t, q, ops.Question{ID: id}), "just-due")
		wantReason(t, explain(t, q, ops.Question{Queue: queue.DefaultQueue}), "just-due")
	}
	a := explain(t, observer, ops.Question{ID: id + 1})
	wantReason(t, a, "no-such-job")
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "permission denied for sequence jobs_id_seq") {
		t.Errorf("not known: %q", a.Unknown)
	}
}

func openPQ(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
