package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// throttled returns a DSN by which the server's answers take a second for each rate bytes.
func throttled(t *testing.T, dsn string, rate int) string {
	t.Helper()
	return relayed(t, dsn, math.MaxInt, rate)
}

// relayed returns a DSN by which requests take a second for each so many bytes, and answers, too.
func relayed(t *testing.T, dsn string, requests, answers int) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", server)
			if err != nil {
				c.Close()
				return
			}
			go relay(s, c, requests)
			go relay(c, s, answers)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

// relay writes to the one connection what comes from the other, and closes it at the end.
func relay(to, from net.Conn, rate int) {
	defer to.Close()
	part := make([]byte, 4096)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

// TestSlowPayload: a payload that takes longer than a claim is released with a delay, so that the
// jobs behind it run. It comes alone once a claim has more time.
func TestSlowPayload(t *testing.T) {
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: takes some ten seconds")
	}
	t.Parallel()
	dsn := postgrestest.DSN(t)
	direct, _ := ways[0].open(t, dsn)
	long := &queue.Job{Kind: "test", Payload: append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 1<<20-2)...), '"')}
	enqueue(t, backend(t, direct, postgres.Options{}), append([]*queue.Job{long}, jobs(20)...)...)
	db, _ := ways[0].open(t, throttled(t, dsn, 250_000))
	q := backend(t, db, postgres.Options{})
	claimWithin := func(limit time.Duration) ([]*queue.Job, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return q.Claim(ctx, request(100))
	}

	slowly := func() (slow *driver.SlowError) {
		t.Helper()
		for try := 1; slow == nil; try++ {
			got, err := claimWithin(3 * time.Second)
			if !errors.As(err, &slow) && (try == 3 || err == nil) {
				t.Fatalf("try %d: %d jobs, error %v; want a SlowError by the third", try, len(got), err)
			}
		}
		return slow
	}
	slow := slowly()
	if slow.Job.ID != long.ID || slow.Delay < 30*time.Second {
		t.Errorf("SlowError for job %d with a delay of %v, want job %d and half a minute", slow.Job.ID, slow.Delay, long.ID)
	}
	n := 0
	for range 20 {
		got, err := claimWithin(3 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		n += len(got)
	}
	if n != 20 {
		t.Errorf("claimed %d short jobs, want 20", n)
	}
	r, _, err := q.Job(t.Context(), long.ID)
	if err != nil || r.Status != queue.StatusPending || r.Attempt != 0 {
		t.Errorf("the long job: got %s, attempt %d, error %v; want pending, 0", r.Status, r.Attempt, err)
	}
	exec(t, direct, `UPDATE errand.jobs SET scheduled_at = now() WHERE id = $1`, long.ID)
	got, err := claimWithin(20 * time.Second)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].Payload, long.Payload) {
		t.Fatalf("with more time: got %d jobs, error %v; want the long one", len(got), err)
	}
	settle(t, q, queue.Outcome{Job: got[0], Action: queue.Release})
	if slow := slowly(); slow.Delay > time.Minute {
		t.Errorf("slow again after it was read: a delay of %v, want half a minute as the first time", slow.Delay)
	}
}
