package backendtest

import (
	"context"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
)

// Tx is an open transaction; *sql.Tx is one.
type Tx = interface {
	queue.DB
	Commit() error
	Rollback() error
}

// Harness is a backend as [Run] tests it: opened for one case, with no jobs.
type Harness struct {
	// Queue is the backend. What else it can do is found with [queue.As].
	Queue queue.Queue
	// Begin opens a transaction on the same database; nil means that the backend
	// has none. With a *sql.DB it returns db.BeginTx(ctx, nil).
	Begin func(ctx context.Context) (Tx, error)
	// Polls says that the backend is a Waiter that was opened without the means
	// to wake workers: its Listen must return an error.
	Polls bool
	// OneWriter says that the database has one write lock, as SQLite's has: while a
	// transaction is open that writes, others wait where they would pass over what it
	// has locked. Cases of two transactions that write beside each other then
	// let the second wait for the first to end, and hold it to what it finds.
	OneWriter bool
}

// power is a set of what a backend may have beyond the four methods of a Queue.
type power uint16

const (
	hasTx power = 1 << iota
	hasWakeUps
	hasInspector
	hasBacklogger
	hasRedriver
	hasPruner
	hasReclaimer
	hasTxClaimer
	hasTxBeginner
	isPolling // a Waiter without the means to wake
	anything  = power(0)
)

var powerNames = []struct {
	power power
	name  string
}{
	{hasTx, "Begin"}, {hasWakeUps, "Waiter"}, {hasInspector, "Inspector"}, {hasBacklogger, "Backlogger"},
	{hasRedriver, "Redriver"}, {hasPruner, "Pruner"}, {hasReclaimer, "Reclaimer"}, {hasTxClaimer, "TxClaimer"},
	{hasTxBeginner, "TxBeginner"}, {isPolling, "Polls"},
}

func powersOf(h Harness) (p power) {
	add := func(ok bool, has power) {
		if ok {
			p |= has
		}
	}
	add(h.Begin != nil, hasTx)
	_, waits := queue.As[queue.Waiter](h.Queue)
	add(waits && !h.Polls, hasWakeUps)
	add(waits && h.Polls, isPolling)
	add(can[queue.Inspector](h), hasInspector)
	add(can[queue.Backlogger](h), hasBacklogger)
	add(can[queue.Redriver](h), hasRedriver)
	add(can[queue.Pruner](h), hasPruner)
	add(can[queue.Reclaimer](h), hasReclaimer)
	add(can[queue.TxClaimer](h) && h.Begin != nil, hasTxClaimer)
	add(can[queue.TxBeginner](h), hasTxBeginner)
	return p
}

func can[T any](h Harness) bool {
	_, ok := queue.As[T](h.Queue)
	return ok
}

// testCase is one promise of the contract.
type testCase struct {
	name  string
	needs power
	run   func(t *testing.T, h Harness)
}

// theme is a table of cases; alone keeps them from running beside one another.
type theme struct {
	name  string
	alone bool
	cases []testCase
}

var themes = []theme{
	{"wait", true, waitCases},
	{"claim", false, claimCases},
	{"lease", false, leaseCases},
	{"settle", false, settleCases},
	{"stale", false, staleCases},
	{"enqueue", false, enqueueCases},
	{"key", false, keyCases},
	{"input", false, inputCases},
	{"cancel", false, cancelCases},
	{"tx", false, txCases},
	{"claimtx", false, claimTxCases},
	{"begintx", false, beginTxCases},
	{"inspect", false, inspectCases},
	{"backlog", false, backlogCases},
	{"redrive", false, redriveCases},
	{"model", false, modelCases},
}

// Run tests that the backend keeps the contract of package queue: open is called
// once for each case, and closes what it opens with t.Cleanup. Cases for what
// the backend cannot do, which a log line names, are left out. Cases run in
// parallel with others of their theme; Run returns when all have ended.
//
// The case model/operations runs random operations beside a model; the flag
// -rapid.checks says how many sequences, 100 unless given.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	have := powersOf(open(t))
	for _, th := range themes {
		t.Run(th.name, func(t *testing.T) {
			for _, c := range th.cases {
				if lacks := c.needs &^ have; lacks != 0 {
					t.Logf("left out for want of %s: %s", lacks, c.name)
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if !th.alone {
						t.Parallel()
					}
					c.run(t, open(t))
				})
			}
		})
	}
}

func (p power) String() string {
	var names []string
	for _, n := range powerNames {
		if p&n.power != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}
