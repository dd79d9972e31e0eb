package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// Enqueue implements [queue.Enqueuer]. If the answer is lost, it asks the same gateway again, with
// an idempotency key. If that cannot tell either, the error is [queue.ErrUnknown].
func (q *Queue) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	in := wire.EnqueueRequest{Jobs: make([]wire.Job, len(jobs))}
	for i, j := range jobs {
		if err := j.Check(q.options.MaxPayload); err != nil {
			return err
		}
		in.Jobs[i] = wire.JobOf(j)
	}
	if err := refuseHandle(db); err != nil {
		return err
	}
	if len(jobs) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("remote: enqueue: %w", err)
	}
	in.IdempotencyKey = rand.Text()
	var out wire.EnqueueAnswer
	if err := q.enqueue(ctx, in, &out); err != nil {
		return err
	}
	if len(out.Jobs) != len(jobs) {
		return fmt.Errorf("remote: enqueue: %w: %d answers for %d jobs", queue.ErrUnknown, len(out.Jobs), len(jobs))
	}
	for i, j := range jobs {
		j.ID, j.Duplicate, j.Replaced = out.Jobs[i].ID, out.Jobs[i].Duplicate, out.Jobs[i].Replaced
	}
	return nil
}

// enqueue sends the jobs to one gateway after the other, until one has certainly taken or refused
// them.
func (q *Queue) enqueue(ctx context.Context, in wire.EnqueueRequest, out *wire.EnqueueAnswer) error {
	body, err := encode(in)
	if err != nil {
		return fmt.Errorf("remote: enqueue: %w", err)
	}
	return q.inTurn(ctx, "enqueue", func(g *gateway) (sent, error) {
		c := call{operation: "enqueue", method: http.MethodPost, path: "/v1/enqueue", out: out, only: g.name()}
		outcome, err := q.ask(ctx, g, c, body)
		if codeOf(err) == wire.CodeOther { // the gateway has been restarted: it has written nothing
			c.only = ""
			outcome, err = q.ask(ctx, g, c, body)
		}
		if outcome == unanswered {
			err = q.askAgain(ctx, g, c, body, err)
		}
		return outcome, err
	})
}

// askAgain repeats a request that was not answered. It goes to the same gateway only, because no
// other one knows whether the first request has written the jobs: not this URL's either, if there
// is a new process behind it. err is the error of the first request.
func (q *Queue) askAgain(ctx context.Context, g *gateway, c call, body []byte, err error) error {
	if c.only != "" && ctx.Err() == nil {
		outcome, again := q.ask(ctx, g, c, body)
		if again == nil || outcome == refused && codeOf(again) != wire.CodeOther {
			return again
		}
	}
	return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
}
