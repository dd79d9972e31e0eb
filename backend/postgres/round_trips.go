package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// roundTrips remembers of each pool whether its driver needs two round trips for a statement with
// parameters. There are few pools, and they live as long as the process.
type roundTrips struct{ known sync.Map }

// needsTx reports whether statements on conn must be in a transaction, because the driver sends
// Parse and Bind in two round trips and names no prepared statement. lib/pq does that without
// binary_parameters=yes. Outside a transaction a pooler may run the statement of another client
// between them: then Bind runs that client's statement, with our parameters.
//
// A pooler cannot be told from a server, and a wrapped driver hides its name. So the server is
// asked, once for each pool, what the driver does.
func (r *roundTrips) needsTx(ctx context.Context, pool handle.Connector, conn *sql.Conn) (needs bool, err error) {
	if isPgx(conn) {
		return false, nil
	}
	isKey := reflect.ValueOf(pool).Comparable()
	if isKey {
		if known, ok := r.known.Load(pool); ok {
			return known.(bool), nil
		}
	}
	var isOne bool
	var n int
	query, args := askTrips()
	err = conn.QueryRowContext(ctx, query, args...).Scan(&isOne, &n)
	if err != nil && sqlState(err) == "" {
		return false, err
	}
	needs = err != nil || !isOne // the Bind of two round trips fails where it meets another statement
	if isKey {
		r.known.Store(pool, needs)
	}
	return needs, nil
}

// isPgx reports whether the driver is pgx, which never sends Parse and Bind of an unnamed statement
// in two round trips.
func isPgx(conn rawConn) (is bool) {
	_ = conn.Raw(func(driverConn any) error {
		t := reflect.TypeOf(driverConn)
		is = t != nil && t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), "github.com/jackc/pgx/")
		return nil
	})
	return is
}

// rawConn is a *sql.Conn, or embeds one.
type rawConn interface {
	queue.DB
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
	Raw(f func(driverConn any) error) error
}

// onCallersConn runs f on a connection of the caller's: in a transaction, unless the driver is pgx.
// The caller may have begun one by hand.
func onCallersConn(ctx context.Context, conn rawConn, f func(queue.DB) error) error {
	if isPgx(conn) {
		return f(conn)
	}
	const noTransaction = "25P01"
	_, err := conn.ExecContext(ctx, "SAVEPOINT errand")
	if sqlState(err) == noTransaction {
		return readCommitted(ctx, conn, f)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "RELEASE SAVEPOINT errand")
	}
	if err != nil {
		return err
	}
	return f(conn)
}

// manyParameters is how many parameters the query of askTrips has. No other statement has as many:
// if its Bind meets the unnamed statement of another client, that fails and runs nothing.
const manyParameters = 211

// askTrips returns a query, and its arguments, of whether the query was parsed in the transaction
// that runs it: the server replaces 'now' when it parses. A named prepared statement is as good. A
// random text tells this query's from those that others have prepared in the same session.
func askTrips() (query string, args []any) {
	mark := rand.Text()
	parameters := make([]string, manyParameters)
	for i := range parameters {
		parameters[i] = "$" + strconv.Itoa(i+1) + "::int"
		args = append(args, i)
	}
	return `SELECT 'now'::timestamptz = now() OR
    EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE statement LIKE '%` + mark + `%'),
    cardinality(ARRAY[` + strings.Join(parameters, ", ") + `])`, args
}
