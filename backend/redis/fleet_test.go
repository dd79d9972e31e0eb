package redis_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// rewind makes the last report of each worker older, and the statistics by whole minutes, in the
// partition whose keys begin with base.
func rewind(t *testing.T, client rueidis.Client, base string, by time.Duration) {
	t.Helper()
	do := func(words ...string) rueidis.RedisMessage {
		t.Helper()
		m, err := client.Do(t.Context(), client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()).ToMessage()
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return m
	}
	for name, at := range scores(t, client, base+"seen") {
		do("ZADD", base+"seen", fmt.Sprintf("%.0f", at-float64(by.Microseconds())), name)
	}
	minutes := scores(t, client, base+"minutes")
	for _, was := range slices.SortedFunc(maps.Keys(minutes), func(a, b string) int { return cmp.Compare(minutes[a], minutes[b]) }) {
		is := fmt.Sprintf("%.0f", minutes[was]-by.Truncate(time.Minute).Minutes())
		m := do("HGETALL", base+"stats:"+was)
		all, err := m.AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		do("UNLINK", base+"stats:"+was)
		do("ZREM", base+"minutes", was)
		do("ZADD", base+"minutes", is, is)
		for id, numbers := range all {
			do("HSET", base+"stats:"+is, id, numbers)
		}
	}
}

// scores returns the members of a sorted set with their scores.
func scores(t *testing.T, client rueidis.Client, key string) map[string]float64 {
	t.Helper()
	all, err := client.Do(t.Context(), client.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64, len(all))
	for _, z := range all {
		found[z.Member] = z.Score
	}
	return found
}

// TestManyWorkers: workers and what they run come in several pages, and each once.
func TestManyWorkers(t *testing.T) {
	const n = 1200
	b := open(t, redistest.Open(t), redis.Options{Partitions: 2})
	var reports []queue.WorkerReport
	var jobs []*queue.Job
	for i := range n {
		reports = append(reports, queue.WorkerReport{WorkerInfo: queue.WorkerInfo{Name: fmt.Sprint("w", i)}})
		jobs = append(jobs, &queue.Job{Queue: "q", Kind: "k"})
	}
	if err := b.ReportWorkers(t.Context(), reports...); err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Claim(t.Context(), request(n)); err != nil {
		t.Fatal(err)
	}
	workers, err := b.Workers(t.Context())
	if err != nil || len(workers) != n {
		t.Errorf("Workers: got %d, error %v; want %d", len(workers), err, n)
	}
	runs, err := b.Runs(t.Context(), queue.MaxRuns)
	if err != nil || len(runs) != queue.MaxRuns || runs[0].ID != jobs[0].ID || runs[queue.MaxRuns-1].ID != jobs[queue.MaxRuns-1].ID {
		t.Errorf("Runs: got %d, error %v; want the first %d", len(runs), err, queue.MaxRuns)
	}
	if runs, err = b.Runs(t.Context(), 3, "none", "w"); err != nil || len(runs) != 3 || runs[0].ID != jobs[0].ID {
		t.Errorf("Runs, three of each: got %+v, error %v; want the first three", runs, err)
	}
}
