package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

// Tx is an open transaction. *sql.Tx is one.
type Tx = interface {
	queue.DB
	Commit() error
	Rollback() error
}

// Harness is a backend as [Run] tests it: opened for one case, without jobs. Only Queue is
// required.
type Harness struct {
	// Queue is the backend. The suite finds its optional capabilities with [driver.As].
	Queue queue.Queue
	// Begin opens a transaction on the same database; nil means that the backend has none. With a
	// *sql.DB it returns db.BeginTx(ctx, nil).
	Begin func(ctx context.Context) (Tx, error)
	// Hold makes the pending job with that ID held, as SQL does by hand; nil leaves out the cases of
	// held jobs.
	Hold func(ctx context.Context, id int64) error
	// Polls says that the backend is a Waiter that was opened without the means to wake workers.
	// Its Listen must then return an error.
	Polls bool
	// NoHints says that the backend signals no jobs to cancel, and leaves them to heartbeats.
	NoHints bool
	// OneWriter says that the database has one write lock, as SQLite has: while a transaction is
	// open that writes, other writers wait instead of passing over what it has locked. In cases
	// with two writing transactions, the second then waits for the first to end and is tested on
	// what it finds.
	OneWriter bool
	// Partitioned says that queues are in partitions that draw IDs by their clocks. The IDs of jobs
	// that are enqueued one after the other rise; those of one call rise within each queue, but not
	// from one queue to another. Edit moves a job only to queues of its partition, and only if the
	// Selection has IDs or a Queue.
	Partitioned bool
	// Spread says that each queue is in several partitions, by the Key of a job, by its Group if it is
	// ordered, or else by turns. Claims keep the order within a partition only, and an ordered job has
	// no Key. A [queue.Rule] can only pause and have an OnDead. Cases that need the order of a whole
	// queue, such a Key or another rule are left out.
	Spread bool
	// Brief leaves out the cases that take many jobs, many callers or a second. It is for a second
	// way to reach a backend that passes all cases in a first way, such as another mode of a driver.
	Brief bool
	// OnlyTx leaves out the cases that need no transaction of Begin's. It is for a second driver, or
	// another type of transactions, on a backend that passes all cases in a first way.
	OnlyTx bool
	// OwnWorkers is how many workers the backend itself runs beside each worker, such as one that
	// forwards the jobs of an outbox. They are among the live ones.
	OwnWorkers int
	// Rewind makes the next tick of each schedule due by that much sooner, and the last report of each
	// worker and the statistics older, as if no worker had run for so long. nil leaves out the cases
	// of schedules, and some of workers and statistics.
	Rewind func(t *testing.T, by time.Duration)
}

// testCase is one promise of the contract.
type testCase struct {
	name  string
	needs capability
	run   func(t *testing.T, h Harness)
}

// theme is a table of cases. Those of a theme that is alone run one after the other, before all
// others.
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
	{"replace", false, replaceCases},
	{"order", false, orderCases},
	{"hold", false, holdCases},
	{"input", false, inputCases},
	{"cancel", false, cancelCases},
	{"tx", false, txCases},
	{"claimtx", false, claimTxCases},
	{"begintx", false, beginTxCases},
	{"inspect", false, inspectCases},
	{"times", false, timesCases},
	{"rules", false, rulesCases},
	{"turns", false, turnsCases},
	{"rates", false, ratesCases},
	{"backlog", false, backlogCases},
	{"redrive", false, redriveCases},
	{"schedule", false, scheduleCases},
	{"history", false, historyCases},
	{"control", false, controlCases},
	{"edit", false, editCases},
	{"delete", false, deleteCases},
	{"audit", false, auditCases},
	{"pause", false, pauseCases},
	{"results", false, resultsCases},
	{"fleet", false, fleetCases},
	{"stats", false, statsCases},
	{"receive", false, receiveCases},
	{"model", false, modelCases},
}

// Run tests that the backend keeps the contract of package queue. It calls open once for each case;
// open closes what it opens with t.Cleanup. Run leaves out cases for capabilities that the backend
// lacks, and logs their names. Most cases are parallel subtests of the subtest "parallel". Run
// returns when all have ended.
//
// The case parallel/model/operations runs random operations beside a model. The flag -rapid.checks
// sets how many sequences; the default is 100.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	first := open(t)
	have := capabilitiesOf(first)
	runTheme := func(t *testing.T, th theme) {
		for _, c := range th.cases {
			if first.OnlyTx && c.needs&(hasTx|hasTxClaimer) == 0 {
				continue
			}
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
	}
	for _, th := range themes {
		if th.alone {
			t.Run(th.name, func(t *testing.T) { runTheme(t, th) })
		}
	}
	t.Run("parallel", func(t *testing.T) { // it ends when its parallel subtests have ended
		for _, th := range themes {
			if !th.alone {
				t.Run(th.name, func(t *testing.T) {
					t.Parallel()
					runTheme(t, th)
				})
			}
		}
	})
}
