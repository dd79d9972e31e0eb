package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// rationIfCostly records a claim from the head, and rations the claims if the server says that they
// scan much that they cannot use. An error is ignored: the next slow claim tries again.
func (b *Backend) rationIfCostly(ctx context.Context, req queue.ClaimRequest, r *ration, took time.Duration, jobs int) {
	if !r.shouldProbe(took, jobs) || !b.isCostly(ctx, req) || r.lockClaims(ctx) != nil {
		return
	}
	defer r.unlockClaims()
	if marks, err := b.headMarks(ctx, req); err == nil && !r.isRationed() {
		r.begin(marks)
	}
}

// isCostly asks the server, with sql/probe.sql, whether claims scan much that they cannot
// use. It is false if the server cannot be asked.
func (b *Backend) isCostly(ctx context.Context, req queue.ClaimRequest) bool {
	var plans []struct{ Plan planNode }
	err := sqlkit.QueryRows(ctx, b.db, func(rows *sql.Rows) error {
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
	pagesOfJobs := 2 * int(plan.found()) // a page of the index and one of the table each, at most
	return plan.Hit+plan.Read-pagesOfJobs >= manyPages || int(plan.Rows) >= manyForeign
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

// found returns how many jobs the plan's scans have found. Each scan ends at a limit.
func (n planNode) found() (rows float64) {
	if n.Type == "Limit" {
		return n.Rows * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.found()
	}
	return rows
}

// headMarks returns marks at the heads of the priorities that have pending jobs.
func (b *Backend) headMarks(ctx context.Context, req queue.ClaimRequest) (all []mark, err error) {
	err = sqlkit.QueryRows(ctx, b.db, func(rows *sql.Rows) error {
		var queue int
		var priority int32
		err := rows.Scan(&queue, &priority)
		all = append(all, mark{queue - 1, headOf(priority)})
		return err
	}, b.sql.priorities, textArray(req.Queues), maxMarks)
	slices.SortFunc(all, compareMarks)
	return all, err
}

// claimRationed claims from the marks on, as ration_marks.go explains. Claims of one ration wait
// for each other, because each builds on what the last has seen.
func (b *Backend) claimRationed(ctx context.Context, req queue.ClaimRequest, r *ration) ([]*queue.Job, error) {
	if err := r.lockClaims(ctx); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	defer r.unlockClaims()
	p := &r.progress
	for {
		asked := time.Now()
		open, err := b.openTransactions(ctx)
		if err != nil {
			return nil, err
		}
		p.trips.add(time.Since(asked), 0)
		notifications := b.notifications.Load()
		all, full := wholeQueues(req.Queues), p.begin(open)
		if !full {
			all = p.spans(req.Queues)
		}
		jobs, err := b.claimSpans(ctx, req, r, open, all, full)
		if err != nil {
			return nil, err
		}
		if len(jobs) > 0 {
			p.answered = notifications
		}
		again := b.scanSkipped(ctx, req, r, notifications, len(jobs) == 0)
		if len(jobs) > 0 || !again && p.found == nil {
			return jobs, nil
		}
	}
}

// claimSpans claims what is due in these spans, outside of which no job is expected. They
// are whole queues if full; otherwise they start at the marks.
func (b *Backend) claimSpans(ctx context.Context, req queue.ClaimRequest, r *ration, open snapshot, all []span, full bool) ([]*queue.Job, error) {
	p := &r.progress
	started := time.Now()
	jobs, exhausted, err := b.claimWithPayloads(ctx, req, all)
	if err != nil {
		p.transactions.forget() // the next claim starts at the heads
		return nil, err
	}
	// A job in the part that was found may also lie behind its mark: it filled the limit twice.
	exhausted = exhausted && (p.found == nil || len(jobs) == 0)
	p.advance(open.at, req.Queues, jobs, exhausted)
	if !full && p.shouldListPriorities(time.Since(started), len(jobs)) {
		b.addMarks(ctx, req, p)
	}
	return jobs, nil
}

// addMarks adds marks for priorities that have none. An error is ignored: the next slow claim tries
// again.
func (b *Backend) addMarks(ctx context.Context, req queue.ClaimRequest, p *progress) {
	marks, err := b.headMarks(ctx, req)
	if err != nil {
		return
	}
	for _, m := range marks {
		p.add(m)
	}
}

// openTransactions returns the transactions that are open, with sql/transactions.sql.
func (b *Backend) openTransactions(ctx context.Context) (s snapshot, err error) {
	err = b.run(ctx, "claim", nil, func(db queue.DB) error {
		var text string
		var next int64
		var at time.Time
		scan := func(rows *sql.Rows) error { return rows.Scan(&text, &next, &at) }
		if err := sqlkit.QueryRows(ctx, db, scan, b.sql.transactions); err != nil {
			return err
		}
		s, err = parseSnapshot(text, next, at)
		return err
	})
	return s, err
}

// scanSkipped scans a part of the jobs before the marks, or, if idle, as many parts as ten
// milliseconds allow. It reports whether it may go on after another claim has taken new jobs:
// workers that are awake are not notified.
func (b *Backend) scanSkipped(ctx context.Context, req queue.ClaimRequest, r *ration, notifications int64, idle bool) (more bool) {
	begun := time.Now()
	next, ok := r.progress.nextSkipped(req.Queues, notifications)
	for ok && b.scanSpan(ctx, req, r, next) && idle {
		if time.Since(begun) >= maxScan {
			return true
		}
		next, ok = r.progress.nextSkipped(req.Queues, notifications)
	}
	return false
}

// scanSpan scans a part of the jobs before the marks, with sql/skipped.sql. It reports whether
// another scan makes sense now. An error is ignored: the next claim tries again.
func (b *Backend) scanSpan(ctx context.Context, req queue.ClaimRequest, r *ration, next part) bool {
	started := time.Now()
	n, last, claimable := 0, position{priority: next.mark.priority}, false
	scan := func(rows *sql.Rows) error { return rows.Scan(&n, &last.due, &last.id, &claimable) }
	err := sqlkit.QueryRows(ctx, b.db, scan, b.sql.skipped,
		next.span.queue, kinds(req), next.mark.priority, timeText(next.span.from.due, "-infinity"), next.span.from.id,
		timeText(next.mark.due, "-infinity"), next.mark.id, skippedAtOnce)
	if err != nil {
		return false
	}
	switch r.progress.endScan(next, time.Since(started), n, last, claimable) {
	case roundIsCheap:
		r.end()
		return false
	case roundIsOver:
		return false
	}
	return true
}
