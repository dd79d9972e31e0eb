package ops_test

import (
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestObserver: the observing role of docs/roles.sql may ask both, here over lib/pq. They find the
// same, and say what the role cannot know.
func TestObserver(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := opstest.OpenPQ(t, dsn)
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	var id int64
	for name, as := range map[string]*postgres.Backend{queue.DefaultQueue: q, "q": observer} {
		if found := opstest.Examine(t, as, doctor.Options{}); len(found) > 0 {
			t.Errorf("found %v", found)
		}
		opstest.Report(t, q, opstest.Idle) // a report and a job are young for some seconds
		id = opstest.Enqueue(t, q, queue.Job{Queue: name})
		opstest.WantReason(t, opstest.Explain(t, as, explain.Question{ID: id}), "just-due")
		opstest.WantReason(t, opstest.Explain(t, as, explain.Question{Queue: name}), "just-due")
	}
	a := opstest.Explain(t, observer, explain.Question{ID: id})
	if len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
	opstest.WantReason(t, opstest.Explain(t, observer, explain.Question{ID: id + 1}), "never-existed")
	opstest.Exec(t, db, "REVOKE SELECT ON SEQUENCE errand.jobs_id_seq FROM "+prefix+"observer")
	a = opstest.Explain(t, observer, explain.Question{ID: id + 1})
	opstest.WantReason(t, a, "no-such-job")
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "permission denied for sequence jobs_id_seq") {
		t.Errorf("not known: %q", a.Unknown)
	}
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "SELECT on the sequence errand.jobs_id_seq, as errand_observer") {
		t.Errorf("no right is named: %q", a.Unknown)
	}
}
