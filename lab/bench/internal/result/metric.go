// Package result keeps what was measured, by scenario, case, system and metric. It compares the
// figures, and checks them against the targets.
package result

import "strings"

// Metric is one thing that is measured.
type Metric struct {
	Name string
	Unit string
}

// The metrics. Resources are counted for each job, so that systems with fewer jobs can be compared.
var (
	Throughput = Metric{"throughput", "jobs/s"}
	P50        = Metric{"p50", "ms"}
	P99        = Metric{"p99", "ms"}
	Slowest    = Metric{"max", "ms"}
	WAL        = Metric{"WAL", "B/job"}
	Commits    = Metric{"commits", "per job"}
	Written    = Metric{"written", "B/job"} // to disk, by its processes
	PeakRSS    = Metric{"peak RSS", "MB"}   // of all its processes
	CPU        = Metric{"CPU", "µs/job"}    // of its processes
	ServerCPU  = Metric{"server CPU", "µs/job"}

	Added   = Metric{"added", "µs"} // to a transaction, by an enqueue in it
	Without = Metric{"without", "µs"}
	With    = Metric{"with", "µs"}

	ClaimP50 = Metric{"claim p50", "ms"}
	ClaimP99 = Metric{"claim p99", "ms"}
	EmptyP50 = Metric{"empty claim p50", "ms"}
	RowsRead = Metric{"rows read", "per job"}

	Transactions = Metric{"transactions", "per s"} // on the server, while nothing is to be done

	Inversions = Metric{"inversions", "jobs"}

	LargestBurst = Metric{"largest burst", "jobs"}

	Ticks      = Metric{"fired", "ticks"}
	Twice      = Metric{"twice", "ticks"}
	Missed     = Metric{"missed", "ticks"}
	StartedP99 = Metric{"p99 until started", "ms"}

	Requests    = Metric{"requests", ""}
	Failed      = Metric{"failed", "%"}
	Unchanged   = Metric{"not modified", "%"}
	Old         = Metric{"with old figures", "%"}
	SessionCPU  = Metric{"CPU of its database sessions", "% of a core"}
	Slowdown    = Metric{"slower by", "%"}
	Heap        = Metric{"heap", "MB"}
	Assets      = Metric{"assets", "kB gzipped"}
	Took        = Metric{"took", "s"}
	ClaimGrowth = Metric{"claim p99", "times"}

	TableSize   = Metric{"table", "MB"}
	IndexSize   = Metric{"indexes", "MB"}
	DequeueSize = Metric{"dequeue index", "kB"}
	RSS         = Metric{"RSS", "MB"}
)

// Header returns the head of a column of m.
func (m Metric) Header() string {
	if m == Throughput {
		return m.Unit
	}
	return strings.TrimSpace(m.Name + " " + m.Unit)
}
