package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/machine"
	"github.com/errandhq/errand/queue"
)

// TestTransactionPooling: over lib/pq, too, no call runs the statement of another client of a
// pooler in transaction mode, which holds fewer connections than its clients.
func TestTransactionPooling(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pq", "pq wrapped", "pq binary_parameters", "pgx exec"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := postgrestest.DSN(t)
			db := openPooled(t, name, machine.StartPgBouncerSize(t, direct, "transaction", 3))
			const clients = 8
			db.SetMaxOpenConns(clients)
			db.SetMaxIdleConns(clients)
			q := backend(t, db, postgres.Options{})
			own := func(context.Context) (queue.DB, error) { return nil, nil }
			redriveBesideDelete(t, openDriver(t, "pgx", direct), q, own)
			conns := func(ctx context.Context) (queue.DB, error) { return db.Conn(ctx) }
			redriveBesideDelete(t, openDriver(t, "pgx", direct), q, conns)
		})
	}
}

// redriveBesideDelete redrives and deletes dead jobs at once, each of them by ID, and wants each
// of them to be what its call has made of it. Each of eight clients has a handle of its own.
func redriveBesideDelete(t *testing.T, direct *sql.DB, q *postgres.Backend, open func(context.Context) (queue.DB, error)) {
	const n = 100
	all := jobs(2 * n)
	enqueue(t, q, all...)
	exec(t, direct, `UPDATE errand.jobs SET status = 'dead'`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			db, err := open(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if conn, isConn := db.(*sql.Conn); isConn {
				defer conn.Close()
			}
			for i := worker; i < 2*n; i += 8 {
				which := queue.Selection{IDs: []int64{all[i].ID}}
				act := q.Delete
				if i/8%2 == 0 != (worker%2 == 0) {
					act = q.Redrive
				}
				if changed, err := act(ctx, db, which); err != nil || changed != 1 {
					t.Errorf("job %d: %d changed, %v", i, changed, err)
				}
			}
		})
	}
	wg.Wait()
	for i, j := range all {
		isRedriven := i/8%2 == 0 != (i%8%2 == 0)
		if got := value[bool](t, direct, `SELECT EXISTS (SELECT FROM errand.jobs WHERE id = $1 AND status = 'pending')`, j.ID); got == isRedriven {
			continue
		}
		t.Errorf("job %d is redriven: %t, want %t", i, !isRedriven, isRedriven)
	}
}

// openPooled connects to the URL of a pooler.
func openPooled(t *testing.T, name, dsn string) (db *sql.DB) {
	t.Helper()
	if name == "pgx exec" {
		return openDriver(t, "pgx", dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	values := u.Query()
	values.Del("default_query_exec_mode")
	if name == "pq binary_parameters" {
		values.Set("binary_parameters", "yes")
	}
	u.RawQuery = values.Encode()
	if name != "pq wrapped" {
		return openDriver(t, "postgres", u.String())
	}
	c, err := pq.NewConnector(u.String())
	if err != nil {
		t.Fatal(err)
	}
	db = sql.OpenDB(wrappedConnector{c})
	t.Cleanup(func() { db.Close() })
	return db
}

func openDriver(t testing.TB, name, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(name, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// wrappedConnector wraps connections, as otelsql and sqlmw do: their type does not tell the driver.
type wrappedConnector struct{ driver.Connector }

func (w wrappedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return wrappedConn{conn.(fullConn)}, nil
}

// fullConn is what database/sql uses of a connection of lib/pq's.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.QueryerContext
	driver.ExecerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type wrappedConn struct{ fullConn }

// BenchmarkRoundTrips enqueues, claims and settles one job at a time over lib/pq, whose calls are
// transactions, and with binary_parameters, where they are single statements.
func BenchmarkRoundTrips(b *testing.B) {
	for _, parameters := range []string{"", "&binary_parameters=yes"} {
		b.Run("pq"+parameters, func(b *testing.B) {
			q := backend(b, openDriver(b, "postgres", postgrestest.DSN(b)+parameters), postgres.Options{})
			for b.Loop() {
				enqueue(b, q, jobs(1)...)
				settle(b, q, queue.Outcome{Job: claim(b, q, 1)[0]})
			}
		})
	}
}
