package explain_test

import (
	"context"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// forgetful does not find single jobs, as behind a pooler that reads them from a standby.
type forgetful struct{ *postgres.Backend }

func (forgetful) Job(context.Context, int64) (queue.Record, bool, error) {
	return queue.Record{}, false, nil
}

// TestExplainGoneMeanwhile: an answer has a reason also if a job is gone when it is read after a
// look has found it.
func TestExplainGoneMeanwhile(t *testing.T) {
	t.Parallel()
	_, q := opstest.Fresh(t)
	opstest.Enqueue(t, q, queue.Job{Key: "k"})
	for _, question := range []explain.Question{{Queue: queue.DefaultQueue}, {Key: "k"}, {Kind: "test"}} {
		if got := opstest.ReasonIDs(opstest.Explain(t, forgetful{q}, question)); got != "perhaps-waits" {
			t.Errorf("%+v: reasons %q", question, got)
		}
	}
}
