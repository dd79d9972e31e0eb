package handle_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// runs is a handle that only runs statements.
type runs struct{ queue.DB }

// prepared is gorm's pool of prepared statements.
type prepared struct {
	queue.DB
	pool *sql.DB
}

func (p prepared) GetDBConn() (*sql.DB, error) {
	if p.pool == nil {
		return nil, errors.New("no pool")
	}
	return p.pool, nil
}

// preparedTx is gorm's transaction of prepared statements, which tells its pool, too.
type preparedTx struct {
	prepared
	*sql.Tx
}

func (p preparedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.Tx.ExecContext(ctx, query, args...)
}

func (p preparedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.Tx.QueryContext(ctx, query, args...)
}

// native is a wrapper of a transaction of pgx.
type native struct {
	pgx.Tx
	queue.DB
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name string
		db   queue.DB
		want handle.Kind
	}{
		{"nil", nil, handle.Own},
		{"*sql.DB", new(sql.DB), handle.Pool},
		{"*sql.Tx", new(sql.Tx), handle.Tx},
		{"*sql.Conn", new(sql.Conn), handle.Conn},
		{"*sqlx.DB", sqlx.NewDb(new(sql.DB), "pgx"), handle.Pool},
		{"*sqlx.Tx", &sqlx.Tx{Tx: new(sql.Tx)}, handle.Tx},
		{"*sqlx.Conn", &sqlx.Conn{Conn: new(sql.Conn)}, handle.Conn},
		{"a pool of prepared statements", prepared{pool: new(sql.DB)}, handle.Pool},
		{"one without a pool", prepared{}, handle.Unknown},
		{"a transaction of prepared statements", preparedTx{Tx: new(sql.Tx)}, handle.Tx},
		{"a transaction of pgx", native{}, handle.Tx},
		{"a wrapper", runs{new(sql.Tx)}, handle.Unknown},
	} {
		if got, err := handle.Of(c.db); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestOfNilPointer(t *testing.T) {
	for _, db := range []queue.DB{(*sql.DB)(nil), (*sql.Tx)(nil), (*sql.Conn)(nil), (*sqlx.Tx)(nil)} {
		var bad *queue.InvalidError
		if _, err := handle.Of(db); !errors.As(err, &bad) || bad.Field != "DB" {
			t.Errorf("a nil %T: got %v, want an InvalidError for DB", db, err)
		}
	}
}
