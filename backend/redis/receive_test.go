package redis_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func newTransfers(from, n int) []driver.Transfer {
	all := make([]driver.Transfer, n)
	for i, j := range newJobs(n) {
		j.Payload = fmt.Append(nil, from+i)
		all[i] = driver.Transfer{Source: fmt.Sprint("outbox ", from+i), Job: j}
	}
	return all
}

func receive(t *testing.T, b *redis.Backend, want int, transfers ...driver.Transfer) {
	t.Helper()
	if n, err := b.Receive(t.Context(), transfers...); err != nil || n != want {
		t.Fatalf("Receive of %d jobs: got %d, error %v; want %d", len(transfers), n, err, want)
	}
}

// wantEach checks that a job of each number is due, and no other one.
func wantEach(t *testing.T, b *redis.Backend, n int) {
	t.Helper()
	got := make(map[string]int)
	for {
		jobs, err := b.Claim(t.Context(), request(1000))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			got[string(j.Payload)]++
		}
		if len(jobs) == 0 {
			break
		}
	}
	for i := range n {
		if times := got[fmt.Sprint(i)]; times != 1 {
			t.Errorf("job %d has arrived %d times, want once", i, times)
		}
	}
	if len(got) != n {
		t.Errorf("%d jobs have arrived, want %d", len(got), n)
	}
}

// TestReceiveForgets: pruning forgets the sources whose window is over, and no others.
func TestReceiveForgets(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1, Retention: forever})
	key := fmt.Sprintf("{%s:0}:got", redis.NamespaceOf(b))
	known := func() int64 {
		n, err := client.Do(t.Context(), client.B().Zcard().Key(key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := newTransfers(0, 1200)
	receive(t, b, len(all), all...)
	if n, more, err := b.Prune(t.Context()); n != 0 || more || err != nil || known() != 1200 {
		t.Fatalf("Prune within the window: got %d, %v, error %v, %d sources; want 0, false, 1200", n, more, err, known())
	}
	old := client.B().Zadd().Key(key).Xx().ScoreMember()
	for _, x := range all[:1100] {
		old = old.ScoreMember(1, x.Source)
	}
	if err := client.Do(t.Context(), old.Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for i, left := range []int64{700, 200, 100} {
		n, more, err := b.Prune(t.Context())
		if n != 0 || more != (i < 2) || err != nil || known() != left {
			t.Errorf("Prune after the window: got %d, %v, error %v, %d sources; want 0, %v, %d", n, more, err, known(), i < 2, left)
		}
	}
	receive(t, b, 1100, all...)
}

// TestReceiveInPart: a partition fails, so the call fails. The next one completes it.
func TestReceiveInPart(t *testing.T) {
	p := newParted(t, redis.Options{})
	p.deny(t)
	all := newTransfers(0, 20)
	if _, err := p.Receive(t.Context(), all...); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("Receive with a partition that fails: got error %v, want ErrUnknown", err)
	}
	p.allow(t)
	first := count(t, p.Backend, queue.StatusPending)
	if first == 0 || first == 20 {
		t.Fatalf("%d of 20 jobs were received with one of two partitions", first)
	}
	receive(t, p.Backend, 20-int(first), newTransfers(0, 20)...)
	wantEach(t, p.Backend, 20)
}
