package queues

import (
	"bytes"
	"context"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
)

// long is a queue with more jobs than one call looks at: of those, none has the kind that is asked
// for.
type long struct{ *memory.Queue }

func (q long) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	if f.Kind != "" {
		return nil, 50_001, nil
	}
	return q.Queue.Jobs(ctx, f)
}

// TestSeenFar: no kind is refused, or said to be that of no job, while older jobs may have it.
func TestSeenFar(t *testing.T) {
	t.Parallel()
	q := memory.New(memory.Options{})
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "report.daily"}); err != nil {
		t.Fatal(err)
	}
	for _, unseen := range []bool{false, true} {
		var said bytes.Buffer
		a := app{&cli.App{Err: &said}}
		err := a.checkKinds(t.Context(), &dburl.Database{Queue: long{q}}, []string{"report.daily", "report.dayly"}, unseen)
		const want = "errand: none of the newest jobs, no schedule and no live worker has the kind report.dayly: did you mean report.daily?\n"
		if err != nil || said.String() != want {
			t.Errorf("unseen %v: error %v, said %q, want %q", unseen, err, said.String(), want)
		}
		said.Reset()
		err = a.checkKinds(t.Context(), &dburl.Database{Queue: q}, []string{"report.dayly"}, unseen)
		if cli.IsNothing(err) == unseen {
			t.Errorf("all jobs looked at, unseen %v: error %v, said %q", unseen, err, &said)
		}
	}
}
