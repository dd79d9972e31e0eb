package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// Deaths implements [driver.DeathTeller]. It asks each gateway, because each one knows only what it
// has reclaimed itself, and forgets that after ten minutes, or when it ends. It returns what those
// know that answer; the error is about the others. Those that have been silent are asked last.
func (q *Queue) Deaths(ctx context.Context, queues []string) (dead []*queue.Job, err error) {
	body, err := encode(wire.DeathsRequest{Queues: queues})
	if err != nil {
		return nil, fmt.Errorf("remote: deaths: %w", err)
	}
	var failures []error
	for _, n := range q.order(time.Now()) {
		var out wire.DeathsAnswer
		c := call{operation: "deaths", method: http.MethodPost, path: "/v1/deaths", out: &out}
		outcome, err := q.ask(ctx, q.gateways[n], c, body)
		if err != nil {
			failures = append(failures, fmt.Errorf("remote: deaths: %w", err))
		}
		q.noteOutcome(n, outcome, err)
		for _, d := range out.Jobs {
			dead = append(dead, d.Job())
		}
		if ctx.Err() != nil {
			break // the others have had no time to answer
		}
	}
	return dead, errors.Join(failures...)
}
