// Package peer opens the databases and job queues that bench measures and chaos breaks.
package peer

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
)

// OpenDB opens a database with at most this many connections. All of them stay open.
func OpenDB(driver, dsn string, connections int) (*sql.DB, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// OpenPool opens a pgx pool with at most this many connections.
func OpenPool(ctx context.Context, dsn string, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	return pgxpool.NewWithConfig(ctx, config)
}
