package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// probe asks the server, with sql/probe.sql, whether claims walk so much for nothing that they should be rationed. An error tells nothing,
// and is left to the next claim.
func (b *Backend) probe(ctx context.Context, req queue.ClaimRequest) bool {
	var plans []struct{ Plan planNode }
	err := each(ctx, b.db, func(rows *sql.Rows) error {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal(text, &plans)
	}, b.sql.probe, textArray(req.Queues), kinds(req))
	if err != nil || len(plans) != 1 {
		return false
	}
	plan := plans[0].Plan
	ofJobs := 2 * int(plan.found()) // a page of the index and one of the table for each, at most
	return plan.Hit+plan.Read-ofJobs >= manyPages || int(plan.Rows) >= manyForeign
}

// planNode is a node of a plan as EXPLAIN shows it in JSON.
type planNode struct {
	Type  string     `json:"Node Type"`
	Rows  float64    `json:"Actual Rows"` // of each loop
	Loops float64    `json:"Actual Loops"`
	Hit   int        `json:"Shared Hit Blocks"`
	Read  int        `json:"Shared Read Blocks"`
	Plans []planNode `json:"Plans"`
}

// found is how many jobs the looks of a plan have found, each of which ends at a limit.
func (n planNode) found() (rows float64) {
	if n.Type == "Limit" {
		return n.Rows * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.found()
	}
	return rows
}

// beginRation makes claims rationed, unless another has done it meanwhile, or an error says that it is not the time.
func (b *Backend) beginRation(ctx context.Context, req queue.ClaimRequest, f *front) {
	if f.lock(ctx) != nil {
		return
	}
	defer f.unlock()
	if marks, err := b.marks(ctx, req); err == nil && !f.isRationed() {
		f.begin(marks)
	}
}

// marks are at the heads of the priorities that have pending jobs.
func (b *Backend) marks(ctx context.Context, req queue.ClaimRequest) (all []mark, err error) {
	err = each(ctx, b.db, func(rows *sql.Rows) error {
		var queue int
		var priority int32
		err := rows.Scan(&queue, &priority)
		all = append(all, mark{queue - 1, headOf(priority)})
		return err
	}, b.sql.priorities, textArray(req.Queues), maxMarks)
	slices.SortFunc(all, compareMarks)
	return all, err
}

// claimRationed claims from the marks on, as ration.go says. Claims of a line do that one after the other.
func (b *Backend) claimRationed(ctx context.Context, req queue.ClaimRequest, f *front) ([]*queue.Job, error) {
	if err := f.lock(ctx); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	defer f.unlock()
	r := &f.ration
	for {
		asked := time.Now()
		open, err := b.openTransactions(ctx)
		if err != nil {
			return nil, err
		}
		r.trips.add(time.Since(asked), 0)
		heard := b.heard.Load()
		all, full := whole(req.Queues), r.begin(open)
		if !full {
			all = r.stretches(req.Queues)
		}
		jobs, err := b.lookRationed(ctx, req, f, open, all, full)
		if err != nil {
			return nil, err
		}
		if len(jobs) > 0 {
			r.answered = heard
		}
		again := b.lookAtPassed(ctx, req, f, heard, len(jobs) == 0)
		if len(jobs) > 0 || !again && r.found == nil {
			return jobs, nil
		}
	}
}

// lookRationed claims what is due in those stretches, which are all that may have jobs: whole queues if full, or what
// begins at the marks.
func (b *Backend) lookRationed(ctx context.Context, req queue.ClaimRequest, f *front, open snapshot, all []stretch, full bool) ([]*queue.Job, error) {
	r := &f.ration
	started := time.Now()
	jobs, exhausted, err := b.claimWhole(ctx, req, all)
	if err != nil {
		r.transactions.forget() // the next looks from the head
		return nil, err
	}
	r.advance(open.at, req.Queues, jobs, exhausted)
	if !full && r.isSlow(time.Since(started), len(jobs)) {
		b.addMarks(ctx, req, r)
	}
	return jobs, nil
}

// openTransactions runs sql/transactions.sql.
func (b *Backend) openTransactions(ctx context.Context) (s snapshot, err error) {
	err = b.on(ctx, "claim", nil, func(db queue.DB) error {
		var text string
		var next int64
		var at time.Time
		if err := each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&text, &next, &at) }, b.sql.transactions); err != nil {
			return err
		}
		s, err = parseSnapshot(text, next, at)
		return err
	})
	return s, err
}

// lookAtPassed looks at a part of what claims pass over, or, if idle, at as many as it may in ten milliseconds. It reports whether it may
// look at more after another look for what has come meanwhile: workers that are awake are not notified.
func (b *Backend) lookAtPassed(ctx context.Context, req queue.ClaimRequest, f *front, heard int64, idle bool) (more bool) {
	begun := time.Now()
	next, ok := f.ration.nextPassed(req.Queues, heard)
	for ok && b.lookAtPart(ctx, req, f, next) && idle {
		if time.Since(begun) >= maxPassed {
			return true
		}
		next, ok = f.ration.nextPassed(req.Queues, heard)
	}
	return false
}

// lookAtPart looks at a part of what claims pass over, with sql/passed.sql. It reports whether another look makes sense now: an error is
// left to the next claim.
func (b *Backend) lookAtPart(ctx context.Context, req queue.ClaimRequest, f *front, next part) bool {
	started := time.Now()
	n, last, ours := 0, place{priority: next.mark.priority}, false
	err := each(ctx, b.db, func(rows *sql.Rows) error { return rows.Scan(&n, &last.due, &last.id, &ours) }, b.sql.passed,
		next.stretch.queue, kinds(req), next.mark.priority, timeText(next.stretch.from.due, "-infinity"), next.stretch.from.id,
		timeText(next.mark.due, "-infinity"), next.mark.id, passedAtOnce)
	if err != nil {
		return false
	}
	switch r := &f.ration; r.endedPassed(next, time.Since(started), n, last, ours) {
	case roundIsCheap:
		f.end()
		return false
	case roundIsOver:
		return false
	}
	return true
}

// addMarks adds marks where there are priorities without. An error is left to the next claim.
func (b *Backend) addMarks(ctx context.Context, req queue.ClaimRequest, r *ration) {
	marks, err := b.marks(ctx, req)
	if err != nil {
		return
	}
	for _, m := range marks {
		r.add(m)
	}
}
