package pgxadapter

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// conn is a handle as database/sql sees it for the time of one query: a connection that can only be
// queried, and the connector to it. There is nothing to close, since the handle is the caller's.
type conn struct {
	ctx    context.Context // the query's
	handle Handle
}

var _ interface {
	driver.Connector
	driver.Conn
	driver.QueryerContext
	driver.NamedValueChecker
} = conn{}

// textFormat makes the server send every column as text. It does so in the query modes that know no
// column's type beforehand, too.
var textFormat = pgx.QueryResultFormats{pgx.TextFormatCode}

// QueryContext runs the query up to its first row. Before that nothing tells the columns, or
// whether the query fails.
func (c conn) QueryContext(_ context.Context, query string, named []driver.NamedValue) (driver.Rows, error) {
	args := make([]any, 0, 1+len(named))
	args = append(args, textFormat)
	for _, v := range named {
		args = append(args, v.Value)
	}
	r, err := c.handle.Query(c.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	more := r.Next()
	if err := r.Err(); err != nil {
		r.Close()
		return nil, err
	}
	return &rows{rows: r, first: true, more: more}, nil
}

// CheckNamedValue passes every argument on as it is, because pgx knows more types than database/sql
// does. It refuses names, which pgx does not know.
func (c conn) CheckNamedValue(v *driver.NamedValue) error {
	if v.Name != "" {
		return fmt.Errorf("pgxadapter: argument %q: named arguments are not supported", v.Name)
	}
	return nil
}

func (c conn) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c conn) Close() error                                 { return nil }

// What follows is not called: the database never leaves adapter.QueryContext.

func (c conn) Driver() driver.Driver               { return nil }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
