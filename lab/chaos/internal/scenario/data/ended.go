package data

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	backend "github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

var endedTx = scenario.Scenario{
	Number: 29,
	Name:   "ended-tx",
	What:   "SQLite ends a handler's transaction by itself, after a write that was interrupted or found the disk full, before errand writes through it",
	System: "sqlite",
	Run:    endTransactions,
}

// txTrial is one transaction: its fault, and what the handler does with it.
type txTrial struct {
	fault    string // a name of [txFaults]
	settle   bool   // settle the job; otherwise enqueue another
	rollBack bool   // roll back; otherwise commit
}

// txFaults are the faults of a transaction. Each returns the error of the write that failed, or
// nil.
var txFaults = map[string]func(ctx context.Context, tx *sql.Tx) error{
	"nothing":     func(context.Context, *sql.Tx) error { return nil },
	"interrupted": interruptWrite,
	"full disk":   meetFullDisk,
}

// interruptWrite makes a statement's context end during its write.
func interruptWrite(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := tx.ExecContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000000) INSERT INTO junk SELECT i FROM n`)
	return err
}

// meetFullDisk writes more than the file may grow. It then restores the connection's limit.
func meetFullDisk(ctx context.Context, tx *sql.Tx) error {
	var pages int
	if err := tx.QueryRowContext(ctx, `PRAGMA page_count`).Scan(&pages); err != nil {
		return err
	}
	var limit int
	if err := tx.QueryRowContext(ctx, fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+1)).Scan(&limit); err != nil {
		return err
	}
	_, full := tx.ExecContext(ctx, `INSERT INTO junk VALUES (zeroblob(10000000))`)
	if err := tx.QueryRowContext(ctx, `PRAGMA max_page_count = 1073741823`).Scan(&limit); err != nil {
		return err
	}
	return full
}

// endedTrials is the result of the transactions.
type endedTrials struct {
	harness      *harness.Harness
	db           *sql.DB
	q            *backend.Backend
	next         int
	trials       int
	ended, whole int      // transactions that SQLite ended by itself, and the others
	effectless   []string // completed jobs without their business row
	survivors    []string // jobs in the table whose transaction was not committed
	missing      []string // jobs or rows that a committed transaction wrote and that are missing
}

func endTransactions(ctx context.Context, h *harness.Harness) (err error) {
	db, err := backend.Open("sqlite", h.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	q, err := backend.New(db, backend.Options{})
	if err != nil {
		return err
	}
	for _, table := range []string{`CREATE TABLE business (number INTEGER)`, `CREATE TABLE junk (x)`} {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return err
		}
	}
	e := &endedTrials{harness: h, db: db, q: q, next: 1}
	for range harness.Size(h, 100, 5) {
		for fault := range txFaults {
			for i := range 4 {
				if err := e.try(ctx, txTrial{fault: fault, settle: i%2 == 0, rollBack: i/2 == 0}); err != nil {
					return err
				}
			}
		}
	}
	return e.finish(ctx)
}

// trialQueue has the jobs of the trials. The jobs that they enqueue are in the default queue.
const trialQueue = "trial"

// number returns the next job's number.
func (e *endedTrials) number() int {
	e.next++
	return e.next - 1
}

// try claims a job, does its work in a transaction, and then one of the faults. The handler ignores
// the error of the fault.
func (e *endedTrials) try(ctx context.Context, t txTrial) error {
	number, other := e.number(), e.number()
	job := peer.PlainJob(number)
	job.Queue = trialQueue
	if err := errors.Join(e.q.Enqueue(ctx, nil, job), e.harness.RecordAcks(number)); err != nil {
		return err
	}
	jobs, err := e.q.Claim(ctx, queue.ClaimRequest{Queues: []string{trialQueue}, Limit: 1, Worker: "handler", Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		return fmt.Errorf("%d jobs claimed: %w", len(jobs), err)
	}
	e.trials++
	committed, err := e.handle(ctx, t, jobs[0], number, other)
	if err != nil {
		return err
	}
	if err := e.checkTrial(ctx, t, number, other, committed); err != nil {
		return err
	}
	lost, err := e.q.Settle(ctx, nil, queue.Outcome{Job: jobs[0], Action: queue.Done})
	if err != nil || len(lost) > 0 { // it is completed
		return err
	}
	return e.harness.RecordEffects(number)
}

// handle is the handler. It reports whether errand's write and the commit succeeded, and SQLite had
// not ended the transaction.
func (e *endedTrials) handle(ctx context.Context, t txTrial, job *queue.Job, number, other int) (committed bool, err error) {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `INSERT INTO business VALUES (?)`, number); err != nil {
		return false, err
	}
	failed := txFaults[t.fault](ctx, tx)
	if failed == nil && t.fault != "nothing" {
		return false, fmt.Errorf("%s: the write did not fail", t.fault)
	}
	var rows int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM business WHERE number = ?`, number).Scan(&rows); err != nil {
		return false, err
	}
	if rows == 0 {
		e.ended++
	} else {
		e.whole++
	}
	var lost []*queue.Job
	if t.settle {
		lost, err = e.q.Settle(ctx, tx, queue.Outcome{Job: job, Action: queue.Done})
	} else {
		err = e.q.Enqueue(ctx, tx, peer.PlainJob(other))
	}
	if err != nil || len(lost) > 0 || t.rollBack {
		return false, nil
	}
	return tx.Commit() == nil, nil
}

// checkTrial compares the tables with what was committed.
func (e *endedTrials) checkTrial(ctx context.Context, t txTrial, number, other int, committed bool) error {
	rows, err := e.count(ctx, `SELECT count(*) FROM business WHERE number = ?`, number)
	if err != nil {
		return err
	}
	done, err := e.count(ctx, `SELECT count(*) FROM errand_jobs WHERE payload ->> 'number' = ? AND status = 'completed'`, number)
	if err != nil {
		return err
	}
	enqueued, err := e.count(ctx, `SELECT count(*) FROM errand_jobs WHERE payload ->> 'number' = ?`, other)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s, settle %v, roll back %v: %d", t.fault, t.settle, t.rollBack, number)
	if done > rows {
		e.effectless = append(e.effectless, what)
	}
	if !committed && (enqueued > 0 || done > 0) {
		e.survivors = append(e.survivors, what)
	}
	if committed && (rows == 0 || t.settle && done == 0 || !t.settle && enqueued == 0) {
		e.missing = append(e.missing, what)
	}
	if done > 0 && rows > 0 { // its effect is the business row
		if err := e.harness.RecordEffects(number); err != nil {
			return err
		}
	}
	if enqueued > 0 {
		return e.harness.RecordAcks(other)
	}
	return nil
}

func (e *endedTrials) count(ctx context.Context, query string, number int) (n int, err error) {
	err = e.db.QueryRowContext(ctx, query, number).Scan(&n)
	return n, err
}

// finish lets a worker run the remaining jobs, and checks the criteria.
func (e *endedTrials) finish(ctx context.Context) error {
	h := e.harness
	crew, err := h.Crew(1, child.Work{Worker: peer.Worker{Concurrency: 4}})
	if err != nil {
		return err
	}
	if _, _, err := crew.Finish(ctx); err != nil {
		return err
	}
	h.Row.Check(len(e.effectless) == 0, "jobs that are completed, and their effect lost: 0", "%s of %d", harness.FirstFew(e.effectless), e.trials)
	h.Row.Check(len(e.survivors) == 0, "jobs enqueued or completed by a transaction that was not committed: 0", "%s", harness.FirstFew(e.survivors))
	h.Row.Check(len(e.missing) == 0, "of a transaction that was committed, jobs or rows that are not there: 0", "%s", harness.FirstFew(e.missing))
	h.Row.Check(e.ended > e.trials/2 && e.whole > 0, "transactions that SQLite ended by itself, and others: some of each", "%d and %d", e.ended, e.whole)
	return nil
}
