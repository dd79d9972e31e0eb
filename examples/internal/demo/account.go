package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Account is what an example has left in the database. It is read on a
// connection of its own, with plain SQL: what it shows has been committed.
type Account struct {
	Orders    int // rows of the table orders
	Receipts  int // rows of the table receipts
	Completed int // jobs that are done
	Other     int // jobs that are not
	Runs      int // how often jobs were started, all told
}

const accountSQL = `
SELECT (SELECT count(*) FROM orders),
       (SELECT count(*) FROM receipts),
       count(*) FILTER (WHERE status = 'completed'),
       count(*) FILTER (WHERE status <> 'completed'),
       coalesce(sum(attempts), 0)
FROM errand.jobs`

// Read reads the account of the database that dsn names.
func Read(ctx context.Context, dsn string) (a Account, err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return a, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, accountSQL).Scan(&a.Orders, &a.Receipts, &a.Completed, &a.Other, &a.Runs)
	return a, err
}

// Check tells out what is in the database that dsn names, and returns an error if
// that is not what was wanted.
func (want Account) Check(ctx context.Context, dsn string, out io.Writer) error {
	got, err := Read(ctx, dsn)
	if err != nil {
		return err
	}
	var wrong []error
	for _, line := range []struct {
		what      string
		got, want int
	}{
		{"orders", got.Orders, want.Orders},
		{"receipts", got.Receipts, want.Receipts},
		{"jobs completed", got.Completed, want.Completed},
		{"other jobs", got.Other, want.Other},
		{"runs of jobs", got.Runs, want.Runs},
	} {
		verdict := "ok"
		if line.got != line.want {
			verdict = "WRONG"
			wrong = append(wrong, fmt.Errorf("demo: %d %s, want %d", line.got, line.what, line.want))
		}
		fmt.Fprintf(out, "  %-15s %d  want %d  %s\n", line.what, line.got, line.want, verdict)
	}
	return errors.Join(wrong...)
}
