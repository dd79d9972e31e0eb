package gateway_test

import (
	"context"
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// partial is a backend of which a part has failed: it settles all jobs but the first.
type partial struct{ *memory.Queue }

func (p partial) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	lost, err = p.Queue.Settle(ctx, db, outcomes[1:]...)
	return lost, errors.Join(err, &driver.PartialError{Jobs: []*queue.Job{outcomes[0].Job}, Err: errors.New("down")})
}

// TestSettledInPart: the client sends those outcomes again that the backend has not recorded.
func TestSettledInPart(t *testing.T) {
	q := partial{memory.New(memory.Options{})}
	h := open(t, q, gateway.Options{})
	enqueue(t, q, "k", "k")
	claim := claimOne("w", 0)
	claim.Limit = 2
	var in wire.SettleRequest
	for _, j := range read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claim)).Jobs {
		in.Outcomes = append(in.Outcomes, wire.Outcome{ID: j.ID, Fence: j.Fence, Worker: "w", Action: "done"})
	}
	a := read[wire.SettleAnswer](t, send(h, "POST", "/v1/settle", in))
	if len(a.Lost) != 0 || len(a.Locked) != 1 || a.Locked[0].ID != in.Outcomes[0].ID {
		t.Errorf("settle: got %+v, want the first job locked", a)
	}
}
