package redis_test

import (
	"fmt"
	"testing"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestStatsAreBounded: of a minute a thousand queues and kinds are told apart, and none is left
// out.
func TestStatsAreBounded(t *testing.T) {
	const most, more = 1000, 50
	b := open(t, redistest.Open(t), redis.Options{})
	reports := make([]driver.WorkerReport, 2) // of one call, so of one minute
	for i := range most + more {
		s := driver.MinuteStats{Queue: "q", Kind: fmt.Sprint("k", i), Stats: queue.Stats{Done: 1, Ran: 1, RunTimes: queue.Histogram{1}}}
		reports[i/driver.MaxStats].Name = "w"
		reports[i/driver.MaxStats].Stats = append(reports[i/driver.MaxStats].Stats, s)
	}
	if err := b.ReportWorkers(t.Context(), reports...); err != nil {
		t.Fatal(err)
	}
	all, err := b.Stats(t.Context(), queue.StatsFilter{ByQueue: true, ByKind: true, Times: true})
	if err != nil || len(all) != most+1 {
		t.Fatalf("Stats: got %d records, error %v; want %d", len(all), err, most+1)
	}
	if other := all[0]; other.Queue != driver.OtherStats || other.Kind != driver.OtherStats || other.Done != more || other.RunTimes.Count() != more {
		t.Errorf("statistics of further kinds: got %+v, want %d done", other, more)
	}
}
