package remote_test

import (
	"database/sql"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/internal/dbtest"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

const secret = "a secret that only tests know"

// serve starts a gateway of q until the test ends.
func serve(t *testing.T, q queue.Queue, o gateway.Options) (url string, g *gateway.Handler) {
	t.Helper()
	if o.Authorize == nil && o.Tokens == nil {
		o.Tokens = []gateway.Token{{Secret: secret, Access: gateway.Access{Name: "test", Queues: []string{gateway.AllQueues}, May: gateway.Everything}}}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g, err := gateway.New(q, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g)
	t.Cleanup(func() {
		g.Close()
		s.Close()
	})
	return s.URL, g
}

// connect returns a queue behind the gateways. Its Timeout is for 40 MB of JSON under the race
// detector, beside other tests.
func connect(t *testing.T, urls ...string) *remote.Queue {
	t.Helper()
	q, err := remote.New(urls, remote.Options{Token: secret, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// often makes gateways reclaim as often as the suite's cases need it.
var often = gateway.Options{Reclaim: 20 * time.Millisecond}

// TestMemory runs the suite over a gateway of the queue in memory.
func TestMemory(t *testing.T) {
	extent.Long(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		url, _ := serve(t, memory.New(memory.Options{}), often)
		return backendtest.Harness{Queue: connect(t, url), NoHints: true}
	})
}

// TestSQLite runs the suite over a gateway of a queue in a file, with ERRAND_TESTS=whole.
func TestSQLite(t *testing.T) {
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: the suite runs over the queue in memory")
	}
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		url, _ := serve(t, openURL(t, "sqlite:"+filepath.Join(t.TempDir(), "jobs.db")), often)
		return backendtest.Harness{Queue: connect(t, url), NoHints: true}
	})
}

// TestPostgres runs the suite over a gateway of a queue in PostgreSQL, with ERRAND_TESTS=whole.
func TestPostgres(t *testing.T) {
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: the suite runs over the queue in memory")
	}
	pool := newPool(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		url, _ := serve(t, takeQueue(t, pool), often)
		return backendtest.Harness{Queue: connect(t, url), NoHints: true}
	})
}

// newPool returns the databases of a suite.
func newPool(suite *testing.T) *dbtest.Pool[database] {
	return &dbtest.Pool[database]{
		Open: func() database { return openDatabase(suite, postgrestest.DSN(suite)) },
		DB:   func(d database) *sql.DB { return d.DB },
	}
}

// takeQueue returns a queue without jobs. Its database may be that of an earlier case, but not its
// backend, which keeps what it has learnt: once its claims are rationed, they may find a job that
// is enqueued for a past time later than the suite allows (backend/postgres/ration.go).
func takeQueue(t *testing.T, pool *dbtest.Pool[database]) queue.Queue {
	t.Helper()
	b, err := postgres.New(pool.Take(t).DB, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCasesAreApart: the cases of the suite share databases, but no backends.
func TestCasesAreApart(t *testing.T) {
	pool := newPool(t)
	var queues []queue.Queue
	for range 2 {
		t.Run("case", func(t *testing.T) { queues = append(queues, takeQueue(t, pool)) })
	}
	if len(queues) == 2 && queues[0] == queues[1] { // a -run may leave them out
		t.Error("a case has the backend of the case before")
	}
}

type database = *dburl.Database

// openURL returns the queue of a database, with its tables.
func openURL(t *testing.T, url string) queue.Queue {
	t.Helper()
	return openDatabase(t, url).Queue
}

func openDatabase(t *testing.T, url string) database {
	t.Helper()
	d, err := dburl.Open(url, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}
