package redis_test

import (
	"context"
	"math"
	"testing"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// forever keeps ended jobs for as long as a duration can say: see the case "pruning leaves what is
// young".
var forever = queue.Retention{Completed: math.MaxInt64, Dead: math.MaxInt64}

// open returns a backend in a namespace of its own.
func open(t *testing.T, client rueidis.Client, o redis.Options) *redis.Backend {
	t.Helper()
	o.Namespace = redistest.Namespace()
	b, err := redis.New(t.Context(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// harness returns what the suite tests. IDs rise from queue to queue only in one partition.
func harness(t *testing.T, client rueidis.Client, o redis.Options) backendtest.Harness {
	o.Retention = forever
	b := open(t, client, o)
	return backendtest.Harness{
		Queue: b, Partitioned: o.Partitions != 1, Spread: o.Spread > 1, Brief: o.Partitions != 1,
		Hold:   func(ctx context.Context, id int64) error { return redis.Hold(ctx, b, id) },
		Rewind: keysOf(client, b).rewind,
	}
}

// TestConformance runs the suite that every backend passes, on one node and in one partition.
// TestLeastPrivilege does so in brief with the default options.
func TestConformance(t *testing.T) {
	extent.Long(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		return harness(t, redistest.Open(t), redis.Options{Partitions: 1})
	})
}

// TestConformanceOnCluster runs the suite in brief on three masters with a replica each: over 8
// partitions, with each queue in three of them. With ERRAND_TESTS=whole it also runs it with each
// queue in one.
func TestConformanceOnCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short tests one node")
	}
	for name, spread := range map[string]int{"spread 1": 1, "spread 3": 3} {
		t.Run(name, func(t *testing.T) {
			if spread == 1 && !extent.Whole() {
				t.Skip("ERRAND_TESTS=whole runs it: TestLeastPrivilege has each queue in one of 64 partitions")
			}
			backendtest.Run(t, func(t *testing.T) backendtest.Harness {
				return harness(t, redistest.OpenCluster(t), redis.Options{Partitions: 8, Spread: spread})
			})
		})
	}
}
