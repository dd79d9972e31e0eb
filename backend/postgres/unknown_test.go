package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// scissors stand between a client and its server. They cut the connection instead of passing on the
// answer that contains a chosen text.
type scissors struct {
	listener net.Listener
	server   string
	on       atomic.Pointer[string] // the answer to cut, once
	frozen   chan struct{}          // if not nil, that answer is not cut, but kept back until this is closed
	conns    sync.WaitGroup
}

// cutting returns scissors for the server that dsn names, and a dsn that leads
// through them.
func cutting(t *testing.T, dsn string) (*scissors, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scissors{listener: listener, server: u.Host}
	s.conns.Go(s.serve)
	t.Cleanup(func() { listener.Close(); s.conns.Wait() })
	u.Host = listener.Addr().String()
	return s, u.String()
}

func (s *scissors) serve() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", s.server)
		if err != nil {
			client.Close()
			continue
		}
		s.conns.Go(func() {
			defer server.Close()
			_, _ = io.Copy(server, client)
		})
		s.conns.Go(func() {
			defer client.Close()
			s.answer(client, server)
		})
	}
}

func (s *scissors) answer(client io.Writer, server io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if on := s.on.Load(); on != nil && bytes.Contains(buf[:n], []byte(*on)) && s.on.CompareAndSwap(on, nil) {
			if s.frozen == nil {
				return
			}
			<-s.frozen
		}
		if _, failed := client.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

// lastAnswer returns what the server answers last in a call on db whose statement has that answer:
// lib/pq's calls are transactions.
func (w way) lastAnswer(answer string) string {
	if w.driver == "postgres" {
		return "COMMIT\x00"
	}
	return answer
}

// TestUnknown: if the answer to an Enqueue is lost after the server has committed, the error says
// so, and the jobs are there once.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			direct, _ := way{driver: "pgx"}.open(t, dsn)
			s, through := cutting(t, dsn)
			db, _ := w.open(t, through)
			q := backend(t, db, postgres.Options{})
			for _, c := range []struct {
				name   string
				answer string // the server's, in the words of its protocol
				jobs   []*queue.Job
			}{
				{"one", "INSERT 0 1\x00", jobs(1)},
				{"batch", "INSERT 0 3\x00", jobs(3)},
				{"keyed", "SELECT 1\x00", []*queue.Job{{Kind: "test", Key: "k"}}},
			} {
				t.Run(c.name, func(t *testing.T) {
					exec(t, direct, "DELETE FROM errand.jobs")
					answer := w.lastAnswer(c.answer)
					s.on.Store(&answer)
					if err := q.Enqueue(t.Context(), nil, c.jobs...); !errors.Is(err, queue.ErrUnknown) {
						t.Errorf("got %v, want %v", err, queue.ErrUnknown)
					}
					if got := value[int](t, direct, "SELECT count(*) FROM errand.jobs"); got != len(c.jobs) {
						t.Errorf("%d jobs written, want %d", got, len(c.jobs))
					}
					if s.on.Load() != nil {
						t.Error("nothing was cut")
					}
				})
			}
			again := &queue.Job{Kind: "test", Key: "k"}
			if err := q.Enqueue(t.Context(), db, again); err != nil || !again.Duplicate {
				t.Errorf("the keyed job, enqueued again: error %v, Duplicate %v; want nil, true", err, again.Duplicate)
			}
		})
	}
}

// TestKnown: an error is not ErrUnknown if the server has answered with it, or nothing was sent.
func TestKnown(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	over, stop := context.WithCancel(t.Context())
	stop()
	if err := q.Enqueue(over, nil, jobs(1)...); !errors.Is(err, context.Canceled) || errors.Is(err, queue.ErrUnknown) {
		t.Errorf("with a context that has ended: got %v, want %v alone", err, context.Canceled)
	}
	exec(t, db, "ALTER TABLE errand.jobs ADD CHECK (kind <> 'test')")
	if err := q.Enqueue(t.Context(), nil, jobs(1)...); err == nil || errors.Is(err, queue.ErrUnknown) {
		t.Errorf("refused by a constraint: got %v, want another error than %v", err, queue.ErrUnknown)
	}
}
