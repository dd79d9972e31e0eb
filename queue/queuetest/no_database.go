package queuetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
)

// NoDatabase returns a pool without a database. It is for tests, on the queue in memory, of code
// that begins a transaction and enqueues in it, and of handlers within middleware.Tx. Transactions
// begin, commit and roll back, and do nothing else. A statement returns an error that shows it.
//
// Jobs that are enqueued in such a transaction exist at once, and stay if it rolls back: the queue
// in memory cannot see its end. NoDatabase may be used concurrently. The caller closes it.
func NoDatabase() *sql.DB { return sql.OpenDB(noDatabase{}) }

// noDatabase is the driver of NoDatabase, its connections and their transactions.
type noDatabase struct{}

// Connect implements [driver.Connector].
func (n noDatabase) Connect(context.Context) (driver.Conn, error) { return n, nil }

// Driver implements [driver.Connector].
func (n noDatabase) Driver() driver.Driver { return n }

// Open implements [driver.Driver].
func (n noDatabase) Open(string) (driver.Conn, error) { return n, nil }

// Prepare implements [driver.Conn]. It returns the error of each statement.
func (noDatabase) Prepare(query string) (driver.Stmt, error) {
	return nil, fmt.Errorf("queuetest: NoDatabase runs no statements: %s", window(query, 0, mostArgs))
}

// Begin implements [driver.Conn].
func (n noDatabase) Begin() (driver.Tx, error) { return n, nil }

// BeginTx implements [driver.ConnBeginTx].
func (n noDatabase) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return n, nil }

// Commit implements [driver.Tx].
func (noDatabase) Commit() error { return nil }

// Rollback implements [driver.Tx].
func (noDatabase) Rollback() error { return nil }

// Close implements [driver.Conn].
func (noDatabase) Close() error { return nil }
