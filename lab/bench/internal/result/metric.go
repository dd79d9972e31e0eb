// Package result keeps what was measured, by scenario, case, system and metric,
// and says how it compares and whether it meets its targets.
package result

import "strings"

// Metric is one thing that is measured.
type Metric struct {
	Name string
	Unit string
}

// The metrics. What is used up is told for each job, so that systems
// which were given fewer of them compare.
var (
	Throughput = Metric{"throughput", "jobs/s"}
	P50        = Metric{"p50", "ms"}
	P99        = Metric{"p99", "ms"}
	Slowest    = Metric{"max", "ms"}
	WAL        = Metric{"WAL", "B/job"}
	Commits    = Metric{"commits", "per job"}
	Written    = Metric{"written", "B/job"} // to disk, of its processes
	PeakRSS    = Metric{"peak RSS", "MB"}   // of all its processes
	CPU        = Metric{"CPU", "µs/job"}    // of its processes
	ServerCPU  = Metric{"server CPU", "µs/job"}

	Added   = Metric{"added", "µs"} // to a transaction, by enqueueing in it
	Without = Metric{"without", "µs"}
	With    = Metric{"with", "µs"}

	ClaimP50 = Metric{"claim p50", "ms"}
	ClaimP99 = Metric{"claim p99", "ms"}
	EmptyP50 = Metric{"empty claim p50", "ms"}
	RowsRead = Metric{"rows read", "per job"}

	TableSize   = Metric{"table", "MB"}
	IndexSize   = Metric{"indexes", "MB"}
	DequeueSize = Metric{"dequeue index", "kB"}
	RSS         = Metric{"RSS", "MB"}
)

// Header is what stands above a column of m.
func (m Metric) Header() string {
	if m == Throughput {
		return m.Unit
	}
	return strings.TrimSpace(m.Name + " " + m.Unit)
}
