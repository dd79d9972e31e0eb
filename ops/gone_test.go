package ops_test

import (
	"context"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/ops"
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
	_, q := fresh(t)
	enqueue(t, q, queue.Job{Key: "k"})
	for _, question := range []ops.Question{{Queue: queue.DefaultQueue}, {Key: "k"}, {Kind: "test"}} {
		if got := reasonIDs(explain(t, forgetful{q}, question)); got != "perhaps-waits" {
			t.Errorf("%+v: reasons %q", question, got)
		}
	}
}
