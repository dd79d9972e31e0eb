package peer

import (
	"context"
	"database/sql"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/lab/internal/server"
)

// progressReader asks a database, on its own connection, how far a measurement is.
type progressReader struct{ querier }

type querier interface {
	query(ctx context.Context, sql string, into ...any) error
	close() error
}

func (l progressReader) queryBool(ctx context.Context, sql string) (answer bool, err error) {
	err = l.query(ctx, sql, &answer)
	return answer, err
}

func (l progressReader) census(ctx context.Context, sql string) (c Census, err error) {
	err = l.query(ctx, sql, &c.Unsettled, &c.Completed, &c.Failed)
	return c, err
}

// postgresQuerier connects at its first query. It switches sequential scans off: the statistics are
// from before the measurement, and would make the server read the whole table to find that nothing
// is left.
type postgresQuerier struct {
	dsn string

	mu   sync.Mutex
	conn *pgx.Conn
}

func readPostgres(dsn string) progressReader { return progressReader{&postgresQuerier{dsn: dsn}} }

func (a *postgresQuerier) query(ctx context.Context, sql string, into ...any) error {
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

func (a *postgresQuerier) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return nil
	}
	err := a.conn.Close(context.Background())
	a.conn = nil
	return err
}

// sqliteQuerier opens its own connection at its first query, because the system under test may have
// only one.
type sqliteQuerier struct{ open func() (*sql.DB, error) }

func readSQLite(dsn string) progressReader {
	return progressReader{sqliteQuerier{sync.OnceValues(func() (*sql.DB, error) { return peer.OpenDB("sqlite", dsn, 1) })}}
}

func (a sqliteQuerier) query(ctx context.Context, sql string, into ...any) error {
	db, err := a.open()
	if err != nil {
		return err
	}
	return db.QueryRowContext(ctx, sql).Scan(into...)
}

func (a sqliteQuerier) close() error {
	db, err := a.open()
	if err != nil {
		return err
	}
	return db.Close()
}
