package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// startWith starts a node with settings, and returns a client of it.
func startWith(t *testing.T, settings map[string]string) (*redistest.Server, rueidis.Client) {
	t.Helper()
	redistest.Open(t) // skips the test if there is no redis-server
	s, err := redistest.Start(t.Context(), redistest.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, client
}

func request(limit int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: []string{"q"}, Limit: limit, Lease: time.Minute, Worker: "w"}
}

func newJobs(n int) []*queue.Job {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = &queue.Job{Queue: "q", Kind: "k", Payload: []byte(fmt.Sprintf(`"%s"`, strings.Repeat("x", 1000)))}
	}
	return jobs
}

// enqueueAll enqueues more jobs than one call may.
func enqueueAll(t *testing.T, b *redis.Backend, jobs []*queue.Job) {
	t.Helper()
	for some := range slices.Chunk(jobs, 10_000) {
		if err := b.Enqueue(t.Context(), nil, some...); err != nil {
			t.Fatal(err)
		}
	}
}

// count returns how many jobs have the status.
func count(t *testing.T, b *redis.Backend, status queue.Status) (n int64) {
	t.Helper()
	counts, err := b.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Status == status {
			n += c.Jobs
		}
	}
	return n
}

// TestRefusesEviction: a server that may delete keys is refused.
func TestRefusesEviction(t *testing.T) {
	_, client := startWith(t, map[string]string{"maxmemory-policy": "allkeys-lru"})
	_, err := redis.New(t.Context(), client, redis.Options{})
	if _, ok := errors.AsType[*queue.SetupError](err); !ok || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("New on a server with allkeys-lru: got error %v, want a SetupError that names it", err)
	}
}

// TestRefusesOtherOptions: what is fixed for a namespace cannot be changed.
func TestRefusesOtherOptions(t *testing.T) {
	client, name := redistest.Open(t), redistest.Namespace()
	for _, c := range []struct {
		o    redis.Options
		want string
	}{
		{redis.Options{Partitions: 4, Spread: 2}, ""},
		{redis.Options{Partitions: 4, Spread: 2}, ""},
		{redis.Options{Partitions: 8, Spread: 2}, "partitions 4"},
		{redis.Options{Partitions: 4}, "spread 2"},
	} {
		c.o.Namespace = name
		_, err := redis.New(t.Context(), client, c.o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("New(%+v): got error %v, want one with %q", c.o, err, c.want)
		}
	}
}

// TestFull: at maxmemory Enqueue is refused, and nothing is written. Claims and outcomes go on, and
// make room.
func TestFull(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a server")
	}
	_, client := startWith(t, map[string]string{"maxmemory": "16mb"})
	b := open(t, client, redis.Options{Retention: queue.Retention{Completed: -1}})
	var err error
	written := 0
	for range 200 {
		if err = b.Enqueue(t.Context(), nil, newJobs(100)...); err != nil {
			break
		}
		written += 100
	}
	if err == nil || errors.Is(err, queue.ErrUnknown) || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("Enqueue beyond maxmemory: got error %v, want OOM, and not ErrUnknown", err)
	}
	if n := count(t, b, queue.StatusPending); n != int64(written) {
		t.Errorf("pending after a refused Enqueue: got %d, want %d", n, written)
	}
	for settled := 0; settled < written; {
		jobs, err := b.Claim(t.Context(), request(500))
		if err != nil || len(jobs) == 0 {
			t.Fatalf("Claim at maxmemory: got %d jobs, error %v", len(jobs), err)
		}
		if _, _, err := b.Extend(t.Context(), time.Minute, jobs...); err != nil {
			t.Fatalf("Extend at maxmemory: %v", err)
		}
		outcomes := make([]queue.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i].Job = j
		}
		if lost, err := b.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) != 0 {
			t.Fatalf("Settle at maxmemory: lost %d, error %v", len(lost), err)
		}
		settled += len(jobs)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(100)...); err != nil {
		t.Errorf("Enqueue when there is room again: %v", err)
	}
}

// TestNewAtMaxmemory: workers may start at maxmemory, because they make room.
func TestNewAtMaxmemory(t *testing.T) {
	_, client := startWith(t, nil)
	name := redis.NamespaceOf(open(t, client, redis.Options{}))
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	b, err := redis.New(t.Context(), client, redis.Options{Namespace: name})
	if err != nil {
		t.Fatalf("New at maxmemory: %v", err)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Enqueue at maxmemory: got error %v, want OOM", err)
	}
}

// TestDurable: Enqueue knows when too few replicas have a job.
func TestDurable(t *testing.T) {
	extent.Long(t)
	client := redistest.OpenCluster(t)
	b := open(t, client, redis.Options{Partitions: 8, Durable: 1, DurableTimeout: 20 * time.Second})
	if err := b.Enqueue(t.Context(), nil, newJobs(10)...); err != nil {
		t.Errorf("Enqueue for one replica: %v", err)
	}
	b = open(t, client, redis.Options{Partitions: 8, Durable: 2, DurableTimeout: 50 * time.Millisecond})
	err := b.Enqueue(t.Context(), nil, newJobs(10)...)
	if !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue for two replicas of a master that has one: got error %v, want ErrUnknown", err)
	}
	if n := count(t, b, queue.StatusPending); n != 10 {
		t.Errorf("pending after it: got %d, want 10", n)
	}
}

// TestDurableRules: rules and schedules wait for replicas, too.
func TestDurableRules(t *testing.T) {
	_, client := startWith(t, nil)
	b := open(t, client, redis.Options{Durable: 1, DurableTimeout: 10 * time.Millisecond})
	_, pausing := b.Pause(t.Context(), nil, queue.Target{Queue: "q"}, true)
	for what, err := range map[string]error{
		"SetRules":     b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: 1}),
		"Pause":        pausing,
		"SetSchedules": b.SetSchedules(t.Context(), nil, hourly(1)...),
	} {
		if err == nil || !strings.Contains(err.Error(), "too few replicas have it in time: 0 of 1") {
			t.Errorf("%s on a server without replicas: got error %v", what, err)
		}
	}
}

// TestHungServer: a durable Enqueue on a server that hangs ends by itself.
func TestHungServer(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	s, client := startWith(t, nil)
	b, err := redis.New(t.Context(), client, redis.Options{Durable: 1, DurableTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(1)...); !errors.Is(err, queue.ErrUnknown) { // it has no replica
		t.Fatalf("the first Enqueue, which opens the connection: got %v, want ErrUnknown", err)
	}
	if err := s.Freeze(t.Context(), s.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := b.Enqueue(ctx, nil, newJobs(1)...); !errors.Is(err, queue.ErrUnknown) || ctx.Err() != nil {
		t.Errorf("Enqueue: got %v, %v, want ErrUnknown before the caller's context ends", err, ctx.Err())
	}
	if err := s.Thaw(s.Addrs[0]); err != nil {
		t.Fatal(err)
	}
}

// TestUnknown: the answer to an Enqueue is lost. It says so, and the client does not repeat it.
func TestUnknown(t *testing.T) {
	s, client := startWith(t, nil)
	name := redistest.Namespace()
	direct, err := redis.New(t.Context(), client, redis.Options{Namespace: name})
	if err != nil {
		t.Fatal(err)
	}
	proxy := newProxy(t, s.Addrs[0])
	// With one connection, the cut meets the answer to Enqueue, and not the greeting of a new one.
	far, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{proxy.addr()}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	b, err := redis.New(t.Context(), far, redis.Options{Namespace: name})
	if err != nil {
		t.Fatal(err)
	}
	proxy.cut.Store(true)
	err = b.Enqueue(t.Context(), nil, newJobs(1)...)
	if !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Enqueue whose answer is lost: got error %v, want ErrUnknown", err)
	}
	proxy.cut.Store(false)
	if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err != nil {
		t.Errorf("Enqueue over a new connection: %v", err)
	}
	if n := count(t, direct, queue.StatusPending); n != 2 {
		t.Errorf("pending after both: got %d, want 2", n)
	}
}

// TestFunctionsAreGone: functions that were flushed are loaded again.
func TestFunctionsAreGone(t *testing.T) {
	_, client := startWith(t, nil)
	b := open(t, client, redis.Options{})
	if err := client.Do(t.Context(), client.B().FunctionFlush().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(3)...); err != nil {
		t.Fatal(err)
	}
	if jobs, err := b.Claim(t.Context(), request(10)); err != nil || len(jobs) != 3 {
		t.Errorf("Claim: got %d jobs, error %v; want 3", len(jobs), err)
	}
}

// copyAll copies from one connection to the other until either ends.
func copyAll(to, from net.Conn) {
	_, _ = io.Copy(to, from) // its error is the end of the connection
	to.Close()
	from.Close()
}
