package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
)

// Account is what an example has left in the database.
type Account struct {
	Orders    int // rows of the table orders
	Receipts  int // rows of the table receipts
	Completed int // jobs that are completed
	Other     int // jobs that are not
	Runs      int // attempts of all jobs
}

const accountSQL = `
SELECT (SELECT count(*) FROM orders),
       (SELECT count(*) FROM receipts),
       count(*) FILTER (WHERE status = 'completed'),
       count(*) FILTER (WHERE status <> 'completed'),
       coalesce(sum(attempts), 0)
FROM errand.jobs`

// ReadAccount reads the account of the database that dsn names. It uses a connection of its own
// and plain SQL, so it sees only what has been committed.
func ReadAccount(ctx context.Context, dsn string) (a Account, err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return a, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, accountSQL).Scan(&a.Orders, &a.Receipts, &a.Completed, &a.Other, &a.Runs)
	return a, err
}

// check writes to out what is in the database that dsn names. It returns an error that lists all
// differences from want.
func (want Account) check(ctx context.Context, dsn string, out io.Writer) error {
	got, err := ReadAccount(ctx, dsn)
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
		mark := "ok"
		if line.got != line.want {
			mark = "WRONG"
			wrong = append(wrong, fmt.Errorf("demo: %d %s, want %d", line.got, line.what, line.want))
		}
		fmt.Fprintf(out, "  %-15s %d  want %d  %s\n", line.what, line.got, line.want, mark)
	}
	return errors.Join(wrong...)
}
