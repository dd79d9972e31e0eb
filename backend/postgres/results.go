package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// resultBytes is how many bytes of outputs or progress one statement takes, about.
const resultBytes = 8 << 20

// settleOutputs settles jobs of one worker of which some have outputs. If a transaction has locked
// some of the jobs, the others are settled nevertheless.
func (b *Backend) settleOutputs(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome]) (lost []*queue.Job, err error) {
	withOutput, others := h.Split(hasOutput)
	parts := slices.Collect(chunks(withOutput, func(o queue.Outcome) int { return len(o.Output) }))
	if len(others.Items) > 0 {
		parts = append(parts, others)
	}
	var locked *driver.LockedError
	for _, part := range parts {
		notHeld, err := b.settleHeld(ctx, db, part)
		lost = append(lost, notHeld...)
		if locked, err = addLocked(locked, err); err != nil {
			return lost, err
		}
	}
	return lost, orNil(locked)
}

// outputs returns the JSON object in which sql/settle_output.sql looks outputs up.
func outputs(outcomes []queue.Outcome) string {
	values := make(map[string]json.RawMessage, len(outcomes))
	for _, o := range outcomes {
		values[strconv.FormatInt(o.Job.ID, 10)] = o.Output
	}
	return objectOf(values)
}

// chunks yields the items of h in parts of about resultBytes.
func chunks[T any](h sqlkit.Held[T], size func(T) int) iter.Seq[sqlkit.Held[T]] {
	return func(yield func(sqlkit.Held[T]) bool) {
		rest := h.Items
		for len(rest) > 0 {
			n, bytes := 1, size(rest[0])
			for n < len(rest) && bytes+size(rest[n]) <= resultBytes {
				bytes += size(rest[n])
				n++
			}
			h.Items, rest = rest[:n:n], rest[n:]
			if !yield(h) {
				return
			}
		}
	}
}

// objectOf returns a JSON object of values that are valid JSON.
func objectOf(values map[string]json.RawMessage) string {
	text, _ := json.Marshal(values)
	return string(text)
}

// KeepProgress implements [driver.ResultKeeper] with sql/progress.sql.
func (b *Backend) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	for _, p := range progress {
		if err := p.Check(); err != nil {
			return fmt.Errorf("postgres: progress: %w", err)
		}
	}
	groups, _ := sqlkit.ByWorker(progress, func(p queue.Progress) *queue.Job { return p.Job })
	for _, held := range groups {
		for part := range chunks(held, func(p queue.Progress) int { return len(p.Value) }) {
			refused, err := badrows.Halve(part.Items, func(p queue.Progress) int64 { return p.Job.ID }, isOfRow, func(some []queue.Progress) error {
				part.Items = some
				return b.keepProgress(ctx, part)
			})
			b.badRows.progress.Note(b.options.Logger, "progress", refused)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// keepProgress runs sql/progress.sql for jobs of one holder.
func (b *Backend) keepProgress(ctx context.Context, h sqlkit.Held[queue.Progress]) error {
	values := make(map[string]json.RawMessage, len(h.Items))
	for _, p := range h.Items {
		values[strconv.FormatInt(p.Job.ID, 10)] = p.Value
	}
	ids, fences := arraysOf(h)
	return b.run(ctx, "progress", nil, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql["progress"], ids, fences, h.Worker, objectOf(values))
		return err
	})
}

// Result implements [driver.ResultKeeper] with sql/result.sql.
func (b *Backend) Result(ctx context.Context, id int64) (r queue.Result, ok bool, err error) {
	err = b.run(ctx, "read result", nil, func(db queue.DB) error {
		ok = false
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var output, progress []byte
			var at sql.NullTime
			ok = true
			err := rows.Scan(&r.ID, (*string)(&r.Status), &r.LastError, &output, &progress, &at)
			r.Output, r.Progress, r.ProgressAt = slices.Clone(output), slices.Clone(progress), at.Time
			return err
		}, b.sql["result"], id)
	})
	return r, ok && err == nil, err
}
