package router_test

import (
	"context"
	"database/sql"
	"math"
	"testing"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/internal/dbtest"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// forever keeps ended jobs for as long as a duration can say.
var forever = queue.Retention{Completed: math.MaxInt64, Dead: math.MaxInt64}

// idSpan is how far the IDs of two backends are from each other.
const idSpan = 1_000_000_000_000_000_000

// home is a Postgres database of a suite.
type home struct {
	db *sql.DB
	q  *postgres.Backend
}

// homes lends databases to the cases of a suite.
func homes(suite *testing.T) *dbtest.Pool[*sql.DB] {
	return &dbtest.Pool[*sql.DB]{
		Open: func() *sql.DB { return postgrestest.Open(suite) },
		DB:   func(db *sql.DB) *sql.DB { return db },
	}
}

func newHome(t *testing.T, db *sql.DB) home {
	t.Helper()
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen, Retention: forever})
	if err != nil {
		t.Fatal(err)
	}
	return home{db, q}
}

func (h home) begin(ctx context.Context) (backendtest.Tx, error) { return h.db.BeginTx(ctx, nil) }

func (h home) hold(ctx context.Context, id int64) error {
	_, err := h.db.ExecContext(ctx, `UPDATE errand.jobs SET status = 'held' WHERE id = $1`, id)
	return err
}

// route returns the router, or fails the test.
func route(t testing.TB, routes router.Routes, o router.Options) *router.Queue {
	t.Helper()
	q, err := router.New(routes, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// elsewhere and most are the suite's queues on the second of two backends. The queues q and p are
// on one backend: cases move jobs from one to the other, or compare their IDs. With elsewhere they
// are at home, and transactions with them.
var (
	elsewhere = []string{"a", "b", "r", "other"}
	most      = []string{"q", "p", "o", "b", "turns"}
)

// routeTo returns a router with the named queues on other, and all others at home.
func routeTo(t *testing.T, home, other queue.Queue, names []string) *router.Queue {
	t.Helper()
	routes := router.Routes{router.Other: home}
	for _, name := range names {
		routes[name] = other
	}
	return route(t, routes, router.Options{})
}

// TestMemory runs the whole suite over two backends in memory. Queues that are most on the second
// one have no transactions, and cases enough in brief.
func TestMemory(t *testing.T) {
	extent.Long(t)
	t.Run("elsewhere", func(t *testing.T) {
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			home, other := newMemory(), newMemory()
			return backendtest.Harness{Queue: routeTo(t, home, other, elsewhere), Begin: home.Begin, OwnWorkers: 1}
		})
	})
	t.Run("most", func(t *testing.T) {
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			return backendtest.Harness{Queue: routeTo(t, newMemory(), newMemory(), most), OwnWorkers: 1, Brief: true}
		})
	})
}

func newMemory() *memory.Queue { return memory.New(memory.Options{Retention: forever}) }

// TestConformance runs the suite in brief over a database and a second backend with some of the
// suite's queues. With ERRAND_TESTS=whole it also runs it over the database alone, and with most
// queues on the second backend.
func TestConformance(t *testing.T) {
	extent.Long(t)
	t.Run("one", func(t *testing.T) {
		if !extent.Whole() {
			t.Skip("ERRAND_TESTS=whole runs it: the suite runs over a database with a second backend")
		}
		dbs := homes(t)
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			h := newHome(t, dbs.Take(t))
			q := route(t, router.Routes{"*": h.q}, router.Options{})
			return backendtest.Harness{Queue: q, Begin: h.begin, Hold: h.hold, Brief: true}
		})
	})
	t.Run("others elsewhere", func(t *testing.T) {
		dbs := homes(t)
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			h, other := newHome(t, dbs.Take(t)), newMemory()
			q := routeTo(t, h.q, other, elsewhere)
			return backendtest.Harness{Queue: q, Begin: h.begin, Hold: h.hold, Brief: true}
		})
	})
	t.Run("most elsewhere", func(t *testing.T) {
		if !extent.Whole() {
			t.Skip("ERRAND_TESTS=whole runs it: TestMemory runs the suite with most queues on the second backend")
		}
		dbs := homes(t)
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			h, other := newHome(t, dbs.Take(t)), newMemory()
			q := routeTo(t, h.q, other, most)
			return backendtest.Harness{Queue: q, Brief: true}
		})
	})
}
