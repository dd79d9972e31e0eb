package ops_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestNoConnection: both say in one sentence why the database cannot be reached, whatever the
// driver.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	for _, c := range []struct {
		name, dsn string
		make      func(t *testing.T, db *sql.DB)
		says      string
	}{
		{"no server", "postgres://nobody:secret@127.0.0.1:1/none?sslmode=disable", nil, "no server listens at 127.0.0.1:1"},
		{"no host", "postgres://nobody:secret@nowhere.invalid/none?sslmode=disable", nil, `the host "nowhere.invalid" is not known`},
		{"no socket", "postgres:///none?host=/nowhere&sslmode=disable", nil, "no server listens at /nowhere/.s.PGSQL.5432"},
		{"no database", opstest.Change(t, dsn, func(u *url.URL) { u.Path = "/none" }), nil, "the server has no database of this name"},
		{"no user", opstest.Change(t, dsn, func(u *url.URL) { u.User = url.UserPassword("nobody", "secret") }), nil, "the server refuses this user or its password"},
		{"no free connection", dsn, func(t *testing.T, db *sql.DB) {
			db.SetMaxOpenConns(1)
			opstest.Begin(t, db)
		}, "this program's pool has no free connection, its limit is 1"},
	} {
		for _, driver := range []string{"pgx", "postgres"} {
			t.Run(driver+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				db, err := sql.Open(driver, c.dsn)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				if c.make != nil {
					c.make(t, db)
				}
				wantUnreachable(t, opstest.Backend(t, db, postgres.Options{}), c.says)
			})
		}
	}
}

// wantUnreachable fails unless both say that the database cannot be reached, and why.
func wantUnreachable(t *testing.T, q queue.Queue, says string) {
	t.Helper()
	want := "the database cannot be reached: " + says
	report, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil || len(report.Checks) != 1 || report.Backend != "" {
		t.Fatalf("report %+v, error %v, want one check", report, err)
	}
	if c := report.Checks[0]; c.ID != "reach" || c.Level != ops.Fail || c.Value != want || c.Advice == "" {
		t.Errorf("got %+v, want reach: %s", c, want)
	}
	_, err = explain.Job(t.Context(), q, explain.Question{ID: 1})
	if err == nil || err.Error() != "ops: explain: "+want || errors.Unwrap(errors.Unwrap(err)) == nil {
		t.Errorf("Explain: got %v, want %s, wrapping the driver's error", err, want)
	}
}

// relay passes connections on to a server, until it is cut.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
}

// newRelay returns a relay to the server of dsn, and its URL.
func newRelay(t *testing.T, dsn string) (*relay, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l}
	t.Cleanup(r.cut)
	var to string
	through := opstest.Change(t, dsn, func(u *url.URL) { to, u.Host = u.Host, l.Addr().String() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
			if err != nil {
				in.Close()
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(out, in) }()
			go func() { _, _ = io.Copy(in, out) }()
		}
	}()
	return r, through
}

func (r *relay) cut() {
	r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

// cutting is a backend whose connections break when it is asked for backlogs or a job.
type cutting struct {
	*postgres.Backend
	relay *relay
}

func (c cutting) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	c.relay.cut()
	return c.Backend.Backlogs(ctx)
}

func (c cutting) Job(ctx context.Context, id int64) (queue.Record, bool, error) {
	c.relay.cut()
	return c.Backend.Job(ctx, id)
}

// TestConnectionBreaks: if the connection breaks meanwhile, both say so, and doctor finds nothing
// else.
func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	for _, driver := range []string{"pgx", "postgres"} {
		for _, ask := range []func(t *testing.T, q queue.Queue) string{
			func(t *testing.T, q queue.Queue) string {
				report, err := doctor.Examine(t.Context(), q, doctor.Options{})
				if err != nil || len(report.Checks) != 1 {
					t.Fatalf("report %+v, error %v, want one check", report, err)
				}
				return report.Checks[0].Value
			},
			func(t *testing.T, q queue.Queue) string {
				_, err := explain.Job(t.Context(), q, explain.Question{ID: 1})
				if err == nil {
					t.Fatal("no error")
				}
				return strings.TrimPrefix(err.Error(), "ops: explain: ")
			},
		} {
			r, through := newRelay(t, dsn)
			db, err := sql.Open(driver, through)
			if err != nil {
				t.Fatal(err)
			}
			got := ask(t, cutting{opstest.Backend(t, db, postgres.Options{}), r})
			db.Close()
			if !strings.HasPrefix(got, "the database cannot be reached: ") || strings.Contains(got, "\n") {
				t.Errorf("%s: got %q, want one sentence", driver, got)
			}
		}
	}
}
