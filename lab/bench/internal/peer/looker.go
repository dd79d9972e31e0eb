package peer

import (
	"context"
	"database/sql"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/lab/internal/server"
)

// looker asks a database, on its own connection, how far a measurement is.
type looker struct{ asker }

type asker interface {
	query(ctx context.Context, sql string, into ...any) error
	close() error
}

func (l looker) yes(ctx context.Context, sql string) (answer bool, err error) {
	err = l.query(ctx, sql, &answer)
	return answer, err
}

func (l looker) census(ctx context.Context, sql string) (c Census, err error) {
	err = l.query(ctx, sql, &c.Unsettled, &c.Completed, &c.Failed)
	return c, err
}

// postgresAsker connects at its first query. It switches sequential scans off: the statistics are
// from before the measurement, and would make the server read the whole table to find that nothing
// is left.
type postgresAsker struct {
	dsn string

	mu   sync.Mutex
	conn *pgx.Conn
}

func lookAtPostgres(dsn string) looker { return looker{&postgresAsker{dsn: dsn}} }

func (a *postgresAsker) query(ctx context.Context, sql string, into ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		dsn, err := server.WithParameter(a.dsn, "enable_seqscan", "off")
		if err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		a.conn = conn
	}
	return a.conn.QueryRow(ctx, sql).Scan(into...)
}

func (a *postgresAsker) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return nil
	}
	err := a.conn.Close(context.Background())
	a.conn = nil
	return err
}

// sqliteAsker opens its own connection at its first query, because the system under test may have
// only one.
type sqliteAsker struct{ open func() (*sql.DB, error) }

func lookAtSQLite(dsn string) looker {
	return looker{sqliteAsker{sync.OnceValues(func() (*sql.DB, error) { return peer.OpenDB("sqlite", dsn, 1) })}}
}

func (a sqliteAsker) query(ctx context.Context, sql string, into ...any) error {
	db, err := a.open()
	if err != nil {
		return err
	}
	return db.QueryRowContext(ctx, sql).Scan(into...)
}

func (a sqliteAsker) close() error {
	db, err := a.open()
	if err != nil {
		return err
	}
	return db.Close()
}
