package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// parted is a backend with queue "q" in two partitions, whose user can be kept from the second one.
type parted struct {
	*redis.Backend
	admin, client rueidis.Client
	namespace     string
}

func newParted(t *testing.T, o redis.Options) *parted {
	t.Helper()
	s, admin := startWith(t, nil)
	p := &parted{admin: admin, namespace: redistest.Namespace()}
	p.do(t, "ACL", "SETUSER", "part", "on", ">secret", "+@all", "allkeys", "allchannels")
	var err error
	p.client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: s.Addrs, Username: "part", Password: "secret", DisableCache: true, ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	o.Namespace, o.Partitions, o.Spread = p.namespace, 2, 2
	if p.Backend, err = redis.New(t.Context(), p.client, o); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *parted) do(t *testing.T, words ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := p.admin.Do(t.Context(), p.admin.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return m
}

// deny keeps the user from the second partition.
func (p *parted) deny(t *testing.T) {
	t.Helper()
	p.do(t, "ACL", "SETUSER", "part", "resetkeys", "~{"+p.namespace+"}:*", "~{"+p.namespace+":0}:*")
}

func (p *parted) allow(t *testing.T) {
	t.Helper()
	p.do(t, "ACL", "SETUSER", "part", "allkeys")
}

// fill enqueues jobs into both partitions.
func (p *parted) fill(t *testing.T) {
	t.Helper()
	for range 2 {
		if err := p.Enqueue(t.Context(), nil, newJobs(3)...); err != nil {
			t.Fatal(err)
		}
	}
}

// inSecond returns the jobs of the second partition.
func inSecond(jobs []*queue.Job) []*queue.Job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j *queue.Job) bool { return j.ID%2 == 1 })
}

// TestPartFails: one of two partitions fails, and the other one goes on. Extend and Settle name the
// jobs for which they have failed.
func TestPartFails(t *testing.T) {
	p := newParted(t, redis.Options{})
	p.fill(t)
	jobs, err := p.Claim(t.Context(), request(10))
	if err != nil || len(jobs) != 6 {
		t.Fatalf("Claim: got %d jobs, error %v; want 6", len(jobs), err)
	}
	p.fill(t)
	p.deny(t)
	if more, err := p.Claim(t.Context(), request(10)); err != nil || len(more) != 3 {
		t.Errorf("Claim: got %d jobs, error %v; want 3", len(more), err)
	}
	lost, _, err := p.Extend(t.Context(), time.Minute, jobs...)
	checkPart(t, "Extend", jobs, lost, err)
	lost, err = p.Settle(t.Context(), nil, outcomesFor(jobs)...)
	checkPart(t, "Settle", jobs, lost, err)
	if _, err := p.Settle(t.Context(), nil, outcomesFor(inSecond(jobs))...); err == nil || isPartial(err) {
		t.Errorf("Settle in the second partition: got %v, want an error that is no PartialError", err)
	}
	p.allow(t)
	lost, err = p.Settle(t.Context(), nil, outcomesFor(jobs)...)
	if err != nil || len(lost) != 3 || len(inSecond(lost)) != 0 {
		t.Errorf("Settle of all once more: lost %d, error %v; want those 3 lost that were settled", len(lost), err)
	}
}

func outcomesFor(jobs []*queue.Job) []queue.Outcome {
	outcomes := make([]queue.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i].Job = j
	}
	return outcomes
}

func isPartial(err error) bool {
	_, ok := errors.AsType[*driver.PartialError](err)
	return ok
}

// checkPart checks that an operation has failed for the jobs of the second partition.
func checkPart(t *testing.T, what string, jobs, lost []*queue.Job, err error) {
	t.Helper()
	partial, ok := errors.AsType[*driver.PartialError](err)
	if !ok || !slices.Equal(partial.Jobs, inSecond(jobs)) || len(lost) > 0 {
		t.Errorf("%s: lost %d, error %v; want a PartialError for the jobs of the second partition", what, len(lost), err)
	}
}

// TestUpkeepOfPart: one of two partitions fails, and jobs of the other one are reclaimed and
// pruned.
func TestUpkeepOfPart(t *testing.T) {
	p := newParted(t, redis.Options{Retention: queue.Retention{Completed: time.Nanosecond}})
	p.fill(t)
	short := request(10)
	short.Lease = time.Millisecond
	jobs, err := p.Claim(t.Context(), short)
	if err != nil || len(jobs) != 6 {
		t.Fatalf("Claim: got %d jobs, error %v; want 6", len(jobs), err)
	}
	time.Sleep(5 * time.Millisecond) // until the leases have expired
	p.deny(t)
	reclaimed, err := p.Reclaim(t.Context(), 10)
	if err == nil || len(reclaimed) != 3 {
		t.Errorf("Reclaim: got %d jobs, error %v; want 3, and the error of the other partition", len(reclaimed), err)
	}
	if jobs, err = p.Claim(t.Context(), request(10)); err != nil || len(jobs) != 3 {
		t.Fatalf("Claim of what was reclaimed: got %d jobs, error %v; want 3", len(jobs), err)
	}
	if _, err := p.Settle(t.Context(), nil, outcomesFor(jobs)...); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // until their retention is over
	if n, _, err := p.Prune(t.Context()); err == nil || n != 3 {
		t.Errorf("Prune: got %d, error %v; want 3, and the error of the other partition", n, err)
	}
}

// TestJobIsLost: the hash of a job is lost while its places are kept, as when a master dies while
// the slot moves. The other jobs are reclaimed and pruned, and the key is free.
func TestJobIsLost(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1, Retention: queue.Retention{Completed: time.Nanosecond}})
	lose := func(id int64) {
		t.Helper()
		key := fmt.Sprintf("{%s:0}:j:%d", redis.NamespaceOf(b), id)
		if n, err := client.Do(t.Context(), client.B().Del().Key(key).Build()).AsInt64(); err != nil || n != 1 {
			t.Fatalf("DEL %s: got %d, error %v", key, n, err)
		}
	}
	jobs := newJobs(4)
	jobs[0].Key = "a"
	if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	short := request(2)
	short.Lease = time.Millisecond
	if _, err := b.Claim(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	lose(jobs[0].ID)
	time.Sleep(5 * time.Millisecond) // until the leases have expired
	if reclaimed, err := b.Reclaim(t.Context(), 10); err != nil || len(reclaimed) != 1 || reclaimed[0].ID != jobs[1].ID {
		t.Errorf("Reclaim beside a lost job: got %d jobs, error %v; want the second one", len(reclaimed), err)
	}
	again := newJobs(1)
	again[0].Key = "a"
	if err := b.Enqueue(t.Context(), nil, again...); err != nil || again[0].Duplicate {
		t.Errorf("Enqueue with the key of a lost job: duplicate %v, error %v; want a new job", again[0].Duplicate, err)
	}
	claimed, err := b.Claim(t.Context(), request(10))
	if err != nil || len(claimed) != 4 {
		t.Fatalf("Claim: got %d jobs, error %v; want 4", len(claimed), err)
	}
	if _, err := b.Settle(t.Context(), nil, outcomesFor(claimed)...); err != nil {
		t.Fatal(err)
	}
	lose(claimed[0].ID)
	time.Sleep(time.Millisecond) // until the retention is over
	if n, _, err := b.Prune(t.Context()); err != nil || n != 4 {
		t.Errorf("Prune beside a lost job: got %d, error %v; want 4", n, err)
	}
}

// TestManyAtOnce: operations name more jobs than a command of Redis has arguments.
func TestManyAtOnce(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{Partitions: 1})
	const n = 120_000
	outcomes := make([]queue.Outcome, n)
	for i := range outcomes {
		outcomes[i].Job = &queue.Job{ID: int64(i + 1), Fence: 1, Worker: "w"}
	}
	lost, err := b.Settle(t.Context(), nil, outcomes...)
	if err != nil || len(lost) != n {
		t.Errorf("Settle of %d unknown jobs: lost %d, error %v; want all", n, len(lost), err)
	}
}

// TestHalfLoaded: a master cannot load the functions, and another one can. Calls for the first one
// are not repeated without a pause.
func TestHalfLoaded(t *testing.T) {
	client := redistest.OpenCluster(t)
	b := open(t, client, redis.Options{Partitions: 8})
	node := client.Nodes()[masterOf(t, client, redis.TagsOf(b, "q")[0])]
	do := func(words ...string) {
		t.Helper()
		if err := node.Do(context.WithoutCancel(t.Context()), node.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	do("ACL", "SETUSER", "default", "-function|load")
	t.Cleanup(func() { do("ACL", "SETUSER", "default", "+function|load") })
	do("FUNCTION", "FLUSH")
	refusals := func() int64 {
		return stat(t, node, "commandstats", "cmdstat_function|load:", "rejected_calls=")
	}
	before, began := refusals(), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- b.Enqueue(ctx, nil, newJobs(1)...) }()
	eventually(t, "the master has refused six times", func() bool { return refusals()-before >= 6 })
	cancel() // in the pause that follows, of 160 ms
	if err := <-failed; err == nil || errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue to a master without functions: got error %v, want one that is not ErrUnknown", err)
	}
	if took, pauses := time.Since(began), 155*time.Millisecond; took < pauses {
		t.Errorf("six tries took %v, want %v at least: the pauses between them", took, pauses)
	}
}

// masterOf returns the address of the master that has the partition with that tag.
func masterOf(t *testing.T, client rueidis.Client, tag string) string {
	t.Helper()
	slot, err := client.Do(t.Context(), client.B().ClusterKeyslot().Key(tag+"meta").Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := redistest.MasterOf(t.Context(), client, int(slot))
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// stat returns a number from a section of INFO, behind those texts; 0 if it is not there.
func stat(t *testing.T, node rueidis.Client, section string, behind ...string) (n int64) {
	t.Helper()
	text, err := node.Do(t.Context(), node.B().Info().Section(section).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range behind {
		_, text, _ = strings.Cut(text, b)
	}
	_, _ = fmt.Sscan(text, &n) // else it is 0
	return n
}

// TestIdleClaim: a claim of queues in many partitions that finds nothing asks all of them at once.
func TestIdleClaim(t *testing.T) {
	_, client := startWith(t, nil)
	b := open(t, client, redis.Options{Spread: 64})
	req := request(10)
	req.Queues = []string{"q", "p"}
	reads := func() int64 { return stat(t, client, "stats", "total_reads_processed:") }
	before := reads()
	if jobs, err := b.Claim(t.Context(), req); err != nil || len(jobs) != 0 {
		t.Fatalf("Claim: got %d jobs, error %v; want none", len(jobs), err)
	}
	if n := reads() - before; n > 64 {
		t.Errorf("an idle claim from 128 partitions: the server has read %d times, want a few", n)
	}
}

// TestLongIDs: with many partitions IDs are longer than the 53 bits that Lua's and JavaScript's
// numbers hold. Each operation knows its job by all of them.
func TestLongIDs(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{Partitions: 1024})
	const n = 16 // of neighbours, which 53 bits would not tell apart
	req := request(n)
	req.Queues = nil
	jobs := newJobs(n)
	for i, j := range jobs {
		j.Queue = fmt.Sprint("q", i)
		req.Queues = append(req.Queues, j.Queue)
	}
	if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	claimed, err := b.Claim(t.Context(), req)
	if err != nil || len(claimed) != n {
		t.Fatalf("Claim: got %d jobs, %v, want %d", len(claimed), err, n)
	}
	for i, j := range claimed {
		if j.ID != jobs[i].ID || j.ID < 1<<53 {
			t.Errorf("claimed job %d, want %d, which is above 2^53", j.ID, jobs[i].ID)
		}
	}
	if lost, err := b.Settle(t.Context(), nil, outcomesFor(claimed)...); err != nil || len(lost) > 0 {
		t.Errorf("Settle: lost %v, %v", lost, err)
	}
	for _, j := range jobs {
		if r, found, err := b.Job(t.Context(), j.ID); err != nil || !found || r.ID != j.ID || r.Queue != j.Queue || r.Status != queue.StatusCompleted {
			t.Errorf("Job %d: got %+v, %v", j.ID, r, err)
		}
	}
}
