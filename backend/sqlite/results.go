package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/queue"
)

// resultBytes is how many bytes of outputs or progress one statement takes, about.
const resultBytes = 8 << 20

// idText is a job's id with a JSON text of it.
type idText struct {
	id   int64
	text json.RawMessage
}

// execChunks runs a statement for all of them, of which each execution gets about resultBytes as
// its first parameter.
func execChunks(ctx context.Context, db queue.DB, query string, all []idText, args ...any) error {
	for len(all) > 0 {
		var l list
		n := 0
		for n < len(all) && (n == 0 || len(l.text)+len(all[n].text) <= resultBytes) {
			l.begin()
			l.int(all[n].id)
			l.bytes(all[n].text)
			l.end()
			n++
		}
		all = all[n:]
		if _, err := exec(ctx, db, query, append([]any{l.String()}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// keepOutputs keeps the outputs of the outcomes whose jobs are not lost, with sql/keep_output.sql.
// If completed jobs are not kept, it removes what progress they have.
func (b *Backend) keepOutputs(ctx context.Context, db queue.DB, outcomes []queue.Outcome, lost []*queue.Job) error {
	var all []idText
	var ids []int64
	for _, o := range outcomes {
		if o.Output != nil && !slices.Contains(lost, o.Job) {
			all, ids = append(all, idText{o.Job.ID, o.Output}), append(ids, o.Job.ID)
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case b.options.Retention.KeepsCompleted():
		return execChunks(ctx, db, b.sql["keep_output"], all)
	}
	_, err := exec(ctx, db, b.sql["remove_results"], idList(ids))
	return err
}

// KeepProgress implements [driver.ResultKeeper] with sql/keep_progress.sql.
func (b *Backend) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	for _, p := range progress {
		if err := p.Check(); err != nil {
			return fmt.Errorf("sqlite: progress: %w", err)
		}
	}
	groups, _ := byClaim(progress, func(p queue.Progress) *queue.Job { return p.Job })
	if len(groups) == 0 {
		return nil
	}
	var refused []badrows.Row
	err := b.write(ctx, "progress", func(ctx context.Context, db queue.DB) error {
		refused = nil
		for _, g := range groups {
			bad, err := halveItems(ctx, db, g.Items, func(p queue.Progress) int64 { return p.Job.ID }, func(some []queue.Progress) error {
				var all []idText
				for _, p := range some {
					all = append(all, idText{p.Job.ID, p.Value})
				}
				return execChunks(ctx, db, b.sql["keep_progress"], all, g.fence, g.Worker, now())
			})
			if refused = append(refused, bad...); err != nil {
				return err
			}
		}
		return nil
	})
	b.badRows.progress.Note(b.options.Logger, "progress", refused)
	return err
}

// Result implements [driver.ResultKeeper] with sql/result.sql.
func (b *Backend) Result(ctx context.Context, id int64) (r queue.Result, ok bool, err error) {
	err = b.read(ctx, "read result", func(db queue.DB) error {
		ok = false
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var lastError sql.NullString
			var output, progress []byte
			var at sql.NullInt64
			ok = true
			err := rows.Scan(&r.ID, (*string)(&r.Status), &lastError, &output, &progress, &at)
			r.LastError, r.ProgressAt = lastError.String, timeOrZero(at)
			r.Output, r.Progress = slices.Clone(output), slices.Clone(progress)
			return err
		}, b.sql["result"], id)
	})
	return r, ok && err == nil, err
}

// removeOrphans removes results whose jobs are not in the table, of a slice that follows the id
// from. It writes only if there are any.
func (b *Backend) removeOrphans(ctx context.Context, from int64) error {
	var ids []int64
	err := b.read(ctx, "prune", func(db queue.DB) (err error) {
		ids, err = queryIDs(ctx, db, b.sql["orphans"], from, sliceSize)
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	return b.write(ctx, "prune", func(ctx context.Context, db queue.DB) error {
		_, err := exec(ctx, db, b.sql["remove_results"], idList(ids))
		return err
	})
}
