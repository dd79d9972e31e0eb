package redis_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// BenchmarkOperations enqueues, claims and settles jobs, beside 200 that wait, and reports the
// processor time of the server for each.
func BenchmarkOperations(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(size)+" a call", func(b *testing.B) {
			client := redistest.Open(b)
			q, err := redis.New(b.Context(), client, redis.Options{Namespace: redistest.Namespace(), Retention: queue.Retention{Completed: -1}})
			if err != nil {
				b.Fatal(err)
			}
			if err := q.Enqueue(b.Context(), nil, newJobs(200)...); err != nil {
				b.Fatal(err)
			}
			var spent [3]float64
			for range max(b.N/size, 1) {
				at := serverTime(b, client)
				if err := q.Enqueue(b.Context(), nil, newJobs(size)...); err != nil {
					b.Fatal(err)
				}
				enqueued := serverTime(b, client)
				jobs, err := q.Claim(b.Context(), request(size))
				if err != nil || len(jobs) != size {
					b.Fatalf("Claim: %d jobs, %v", len(jobs), err)
				}
				claimed := serverTime(b, client)
				outcomes := make([]queue.Outcome, size)
				for i := range jobs {
					outcomes[i].Job = jobs[i]
				}
				if _, err := q.Settle(b.Context(), nil, outcomes...); err != nil {
					b.Fatal(err)
				}
				settled := serverTime(b, client)
				spent = [3]float64{spent[0] + enqueued - at, spent[1] + claimed - enqueued, spent[2] + settled - claimed}
			}
			for i, name := range []string{"enqueue-µs/job", "claim-µs/job", "settle-µs/job"} {
				b.ReportMetric(spent[i]*1e6/float64(max(b.N/size, 1)*size), name)
			}
		})
	}
}

// serverTime returns the processor time that the server has spent, in seconds.
func serverTime(b *testing.B, client rueidis.Client) float64 {
	b.Helper()
	info, err := client.Do(b.Context(), client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	var total float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += n
		}
	}
	return total
}
