package signup

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
)

// Schema is the table that [Postgres] needs.
const Schema = `CREATE TABLE users (
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	email text NOT NULL UNIQUE
)`

// Postgres keeps users in a database, the one that the jobs are in.
type Postgres struct{ DB *sql.DB }

// Begin implements [Users].
func (p Postgres) Begin(ctx context.Context) (Tx, error) { return p.DB.BeginTx(ctx, nil) }

// Add implements [Users].
func (p Postgres) Add(ctx context.Context, tx Tx, email string) (id int64, err error) {
	rows, err := tx.QueryContext(ctx, `INSERT INTO users (email) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id`, email)
	if err != nil {
		return 0, fmt.Errorf("signup: add: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, cmp.Or(rows.Err(), ErrTaken)
	}
	err = rows.Scan(&id)
	return id, err
}
