package memory

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/errandhq/errand/queue"
)

// keepOutput keeps the output of an outcome: at once, or when tx commits. The caller holds q.mu.
func (q *Queue) keepOutput(tx *memTx, o queue.Outcome) {
	switch {
	case o.Output == nil:
	case tx == nil:
		q.setOutput(o.Job.ID, slices.Clone(o.Output))
	default:
		tx.outputs[o.Job.ID] = slices.Clone(o.Output)
	}
}

func (q *Queue) setOutput(id int64, output json.RawMessage) {
	r := q.results[id]
	r.Output = output
	q.results[id] = r
}

// KeepProgress implements [driver.ResultKeeper].
func (q *Queue) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	for _, p := range progress {
		if err := p.Check(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return failed("keep progress", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	for _, p := range progress {
		if r := q.rows[p.Job.ID]; r != nil && holds(&r.committed, p.Job) {
			result := q.results[r.id]
			result.Progress, result.ProgressAt = slices.Clone(p.Value), at
			q.results[r.id] = result
		}
	}
	return nil
}

// Result implements [driver.ResultKeeper].
func (q *Queue) Result(ctx context.Context, id int64) (result queue.Result, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return result, false, failed("read result", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.rows[id]
	if r == nil || r.committed.Status == "" {
		return result, false, nil
	}
	result = q.results[id]
	result.ID, result.Status, result.LastError = id, r.committed.Status, r.committed.LastError
	result.Output, result.Progress = slices.Clone(result.Output), slices.Clone(result.Progress)
	return result, true, nil
}
