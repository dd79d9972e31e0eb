package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// BenchmarkReport is one report of a worker that has run jobs of so many kinds since the last one:
// alone, and while seven other processes write as fast as they can.
func BenchmarkReport(b *testing.B) {
	for _, processes := range []int{1, 8} {
		for _, kinds := range []int{0, 40, 500} {
			b.Run(fmt.Sprintf("processes=%d/kinds=%d", processes, kinds), func(b *testing.B) {
				d := drivers[0]
				db, q := fresh(b, d, sqlite.Options{})
				path := value[string](b, db, `SELECT file FROM pragma_database_list WHERE name = 'main'`)
				for i := range processes - 1 {
					defer start(b, "churner", d, path, fmt.Sprint("churner", i)).stop(b)
				}
				r := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{"default"}, Concurrency: 100}}
				for i := range kinds {
					r.Stats = append(r.Stats, driver.MinuteStats{Queue: "default", Kind: fmt.Sprint("kind", i), Stats: queue.Stats{
						Done: 1000, Ran: time.Minute, Waited: time.Hour,
						RunTimes: queue.Histogram{100, 800, 100}, WaitTimes: queue.Histogram{0, 0, 0, 0, 0, 0, 300, 300, 300, 100},
					}})
				}
				var took []time.Duration
				for b.Loop() {
					from := time.Now()
					if err := q.ReportWorkers(b.Context(), r); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(from))
				}
				reportPercentiles(b, took)
			})
		}
	}
}
