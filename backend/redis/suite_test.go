package redis_test

import (
	"math"
	"testing"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// forever keeps ended jobs for as long as a duration can say: see the case "pruning leaves what is
// young".
var forever = queue.Retention{Completed: math.MaxInt64, Dead: math.MaxInt64}

// TestConformance runs the suite that every backend passes, on one node.
func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		b, err := redis.New(t.Context(), redistest.Open(t), redis.Options{Namespace: redistest.Namespace(), Retention: forever})
		if err != nil {
			t.Fatal(err)
		}
		return backendtest.Harness{Queue: b}
	})
}
