package scenario

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	errandSQLite = "errand-sqlite"

	sqliteOnce  = "100,000 jobs"
	sqliteTwice = "200,000 jobs"

	sqliteBatches = "5,000 a call"
)

// sqliteDrainJobs is how many jobs a drain of a SQLite file has at scale 1.
const sqliteDrainJobs = 100_000

var sqliteSystems = []string{errandSQLite, "floor-sqlite", "river-sqlite", "goqite"}

var sqliteDrain = Scenario{
	Name:  "sqlite-drain",
	Title: "no-op jobs in a SQLite file, enqueued beforehand, one process",
	Note: "The file is fresh, on disk, and the same for all: WAL, synchronous=FULL, modernc.org/sqlite. The clock runs from the word to begin, to a process that is started, until " +
		"no job waits or runs, as another process sees it. Each job is checked to have run once. River gets a tenth of the jobs, goqite a hundredth, of which it keeps none that is done.",
	Cases:   []string{sqliteOnce, sqliteTwice},
	Systems: sqliteSystems,
	Base:    errandSQLite,
	Chart:   []result.Metric{result.Throughput},
	Targets: append(sqliteTargets(sqliteOnce), ofSQLite(errandAgainst(1.2, true, result.PeakRSS, sqliteTwice, sqliteOnce))),
	Measure: func(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
		jobs := sqliteDrainJobs
		if name == sqliteTwice {
			jobs *= 2
		}
		out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: jobs})
		return out.Figures, err
	},
}

var sqliteEnqueue = Scenario{
	Name:  "sqlite-enqueue",
	Title: "jobs enqueued in a SQLite file: 100,000 in batches of 5,000, or one a call for 2 s from 1 and 16 goroutines",
	Note: "The file as in sqlite-drain; one process, no worker, a transaction a call, after a warm-up of 10 jobs, each goroutine. Batches, from one goroutine: errand: Enqueue; floor: an INSERT of many rows; " +
		"River: InsertManyFast; goqite: SendTx in one transaction. Each job is checked to be there.",
	Cases:   []string{sqliteBatches, "1 goroutine", "16 goroutines"},
	Systems: sqliteSystems,
	Base:    errandSQLite,
	Chart:   []result.Metric{result.Throughput},
	Targets: sqliteTargets(sqliteBatches, "1 goroutine", "16 goroutines"),
	Measure: measureSQLiteEnqueue,
}

func sqliteTargets(cases ...string) []result.Target {
	var targets []result.Target
	for _, name := range cases {
		targets = append(targets,
			forCase(name, atLeast(3, result.Throughput, errandSQLite, "river-sqlite")),
			forCase(name, atLeast(0.8, result.Throughput, errandSQLite, "floor-sqlite")))
	}
	return targets
}

// ofSQLite is the target t of errand on SQLite.
func ofSQLite(t result.Target) result.Target {
	t.Of.System, t.Over.System = errandSQLite, errandSQLite
	return t
}

func measureSQLiteEnqueue(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	if name == sqliteBatches {
		return measureEnqueue(ctx, h, system, name)
	}
	var goroutines int
	if _, err := fmt.Sscan(name, &goroutines); err != nil {
		return nil, err
	}
	return measureCalls(ctx, h, system, goroutines)
}
