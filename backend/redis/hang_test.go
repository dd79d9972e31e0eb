package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
)

// TestClaimBesideHang: a claim has jobs of a queue when the master of another queue hangs. That
// master has just said that it has jobs. The claim returns what it has before a lease has passed.
// When the master goes on, it does not claim for a caller that waits no longer: its job would not
// start before the lease has expired.
func TestClaimBesideHang(t *testing.T) {
	client := redistest.OpenCluster(t)
	b := open(t, client, redis.Options{Partitions: 64})
	jobs := newJobs(1)
	first := masterOf(t, client, redis.TagsOf(b, jobs[0].Queue)[0])
	jobs = append(jobs, newJobs(1)...)
	second := first
	for n := '0'; second == first; n++ {
		jobs[1].Queue = "other" + string(n)
		second = masterOf(t, client, redis.TagsOf(b, jobs[1].Queue)[0])
	}
	if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	own, release := client.Nodes()[second].Dedicate() // a connection beside that of the claim
	t.Cleanup(release)
	pause := func(words ...string) {
		t.Helper()
		if err := own.Do(context.WithoutCancel(t.Context()), own.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	pause("CLIENT", "PAUSE", "60000", "WRITE") // it answers what does not write
	t.Cleanup(func() { pause("CLIENT", "UNPAUSE") })
	req := request(10)
	req.Queues, req.Lease = []string{jobs[0].Queue, jobs[1].Queue}, 5*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 4*req.Lease)
	defer cancel()
	began := time.Now()
	claimed, err := b.Claim(ctx, req)
	if err != nil || len(claimed) != 1 || claimed[0].ID != jobs[0].ID {
		t.Fatalf("Claim: got %d jobs, error %v; want that of the first queue", len(claimed), err)
	}
	if took := time.Since(began); took > req.Lease {
		t.Errorf("Claim took %v with a job in hand, want a small part of the lease, %v", took, req.Lease)
	}
	time.Sleep(time.Second) // the most that the look may have taken, by which the server is late
	pause("CLIENT", "UNPAUSE")
	claimed, err = b.Claim(t.Context(), req)
	if err != nil || len(claimed) != 1 || claimed[0].ID != jobs[1].ID || claimed[0].Attempt != 1 {
		t.Errorf("Claim once the master goes on: got %+v, error %v; want the job of the second queue, at its first attempt", claimed, err)
	}
}
