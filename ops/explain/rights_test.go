package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestObserverSeesLocks: a role that may not see sessions of other roles still tells who has locked
// a job. Without the right to see the row's lock it says which transactions may have, and which
// right it lacks.
func TestObserverSeesLocks(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := opstest.OpenPQ(t, dsn)
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(-time.Minute)})
	observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	tx := opstest.Begin(t, db)
	opstest.Exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, id)
	a := opstest.Explain(t, observer, explain.Question{ID: id})
	opstest.WantReason(t, a, "row-locked")
	if len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
	opstest.Exec(t, db, "REVOKE SELECT (xmax) ON errand.jobs FROM "+prefix+"observer")
	a = opstest.Explain(t, observer, explain.Question{ID: id})
	opstest.WantReason(t, a, "perhaps-locked")
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "SELECT (xmax) on errand.jobs, as errand_observer") {
		t.Errorf("not known: %q", a.Unknown)
	}
	_ = tx.Rollback()
	a = opstest.Explain(t, observer, explain.Question{ID: id})
	opstest.WantReason(t, a, "unexplained")
	if r := a.Reasons[0]; r.Level != ops.Warn || strings.Contains(fmt.Sprint(r.Evidence), "is seen that has locked it") {
		t.Errorf("%s: %q, want a warning that claims nothing of locks", r.Level, r.Evidence)
	}
}
