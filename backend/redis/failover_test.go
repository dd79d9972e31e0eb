package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
)

// startCluster starts a cluster of three masters and three replicas, whose nodes the test may kill.
func startCluster(t *testing.T) *redistest.Server {
	t.Helper()
	redistest.Open(t) // skips the test if there is no redis-server
	s, err := redistest.StartCluster(t.Context(), 3, 1, redistest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestFailover: the master of all jobs is killed while jobs are enqueued, and its replica takes
// over. The same backend goes on, and no job is lost that a durable Enqueue has acknowledged.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of its own and waits for a failover")
	}
	s := startCluster(t)
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	name := redistest.Namespace()
	options := redis.Options{Namespace: name, Partitions: 1, Durable: 1}
	b, err := redis.New(t.Context(), client, options)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := client.Do(t.Context(), client.B().ClusterKeyslot().Key(fmt.Sprintf("{%s:0}:meta", name)).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := redistest.MasterOf(t.Context(), client, int(slot))
	if err != nil {
		t.Fatal(err)
	}

	acknowledged := enqueueSome(t, b, 50)
	if err := s.Kill(addr); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	b.SetDurable(0) // the new master has no replica
	acknowledged = append(acknowledged, enqueueSome(t, b, 50)...)
	t.Logf("50 jobs were acknowledged within %v of the kill", time.Since(killed))
	claimed := make(map[int64]bool)
	for {
		jobs, err := b.Claim(t.Context(), request(1000))
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			claimed[j.ID] = true
		}
	}
	for _, id := range acknowledged {
		if !claimed[id] {
			t.Errorf("job %d was acknowledged, and is lost", id)
		}
	}
}

// enqueueSome enqueues jobs until n are acknowledged.
func enqueueSome(t *testing.T, b *redis.Backend, n int) (ids []int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(ids) < n; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		jobs := newJobs(1)
		err := b.Enqueue(ctx, nil, jobs...)
		cancel()
		if err == nil {
			ids = append(ids, jobs[0].ID)
			continue
		}
		if time.Now().After(end) {
			t.Fatalf("nothing was acknowledged for a minute: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ids
}
