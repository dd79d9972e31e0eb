package postgres_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// wrapped is a connector that wraps pgx's connections, as libraries do that trace.
type wrapped struct {
	dsn  string
	wrap func(*stdlib.Conn) sqldriver.Conn
}

func (w wrapped) Driver() sqldriver.Driver { return stdlib.GetDefaultDriver() }

func (w wrapped) Connect(context.Context) (sqldriver.Conn, error) {
	conn, err := w.Driver().Open(w.dsn)
	if err != nil {
		return nil, err
	}
	return w.wrap(conn.(*stdlib.Conn)), nil
}

// hiding is a wrapper that does not give out what it wraps, showing one that does.
type (
	hiding  struct{ *stdlib.Conn }
	showing struct{ *stdlib.Conn }
)

func (c showing) Raw() sqldriver.Conn { return c.Conn }

// TestWrappedDriver: over a driver that is wrapped, workers are woken if the wrapper gives out the
// connection, or by a second pool without it. Else Listen says that it is not supported.
func TestWrappedDriver(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	plain, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	hide := func(c *stdlib.Conn) sqldriver.Conn { return hiding{c} }
	show := func(c *stdlib.Conn) sqldriver.Conn { return showing{c} }
	for name, c := range map[string]struct {
		wrap   func(*stdlib.Conn) sqldriver.Conn
		listen postgres.Listen
		works  bool
	}{
		"hidden":               {hide, pgxlisten.Listen, false},
		"shown":                {show, pgxlisten.Listen, true},
		"hidden, a plain pool": {hide, pgxlisten.On(plain), true},
	} {
		t.Run(name, func(t *testing.T) {
			db := sql.OpenDB(wrapped{dsn, c.wrap})
			t.Cleanup(func() { db.Close() })
			q := backend(t, db, postgres.Options{Listen: c.listen})
			if !c.works {
				if err := q.Listen(t.Context(), "w", []string{"default"}, func(driver.Signal) {}); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("Listen: got %v, want ErrUnsupported", err)
				}
				return
			}
			woken := make(chan struct{}, 1)
			listenTo(t, q, "w", "default", woken)
			sleep(t, q)
			enqueue(t, q, &queue.Job{Kind: "test"})
			await(t, woken)
		})
	}
}
