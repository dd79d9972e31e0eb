package middleware

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// SQLDedup is a [DedupStore] in a table of a PostgreSQL or SQLite database. It works inside of [Tx]
// and remembers in Tx's transaction, so the key is kept if and only if the effect is, whichever
// process ran the job. Outside of Tx it returns an error. The zero value is ready for use in a
// PostgreSQL database that postgres.Migrate has brought up to date. It is safe for concurrent use.
type SQLDedup struct {
	// Table is the name of the table; "" means errand.dedup, which postgres.Migrate creates, and in
	// SQLite errand_dedup. Set it if postgres.Options.Schema is not errand, such as jobs.dedup. Any
	// table but that of postgres.Migrate is created by [SQLDedup.Schema]. A name consists of
	// letters, digits and underscores, or of two such names joined by a dot.
	Table string
	// SQLite says that the database is SQLite, 3.38 or later. Table is then a single name, because
	// a transaction over several files may be committed in one of them alone.
	SQLite bool
}

//go:embed dedup_table.sql
var dedupTable string

//go:embed dedup_once.sql
var dedupOnce string

// Schema returns the statements that create the table if it does not exist, for your migrations. It
// panics if Table is not a name.
func (s SQLDedup) Schema() string {
	table := dedupTable
	if s.SQLite {
		table = dedupSQLiteTable
	}
	text, err := s.insertTable(table)
	if err != nil {
		panic(err)
	}
	return text
}

// Once implements [DedupStore]. The window begins when f does, by the database's clock; SQLite's is
// the host's. If another open transaction has the key, Once waits for it to end.
func (s SQLDedup) Once(ctx context.Context, key string, window time.Duration, f func(context.Context) error) (ran bool, err error) {
	fresh, err := s.remember(ctx, key, window)
	if err != nil {
		return false, fmt.Errorf("middleware: SQLDedup: %w", err)
	}
	if !fresh {
		return false, nil
	}
	return true, f(ctx)
}

// remember writes the key. It returns false if the key is there and its window is not over.
func (s SQLDedup) remember(ctx context.Context, key string, window time.Duration) (fresh bool, err error) {
	tx, ok := TxFrom(ctx)
	if !ok {
		return false, errNoTx
	}
	if s.SQLite {
		return s.rememberSQLite(ctx, tx, key, window)
	}
	query, err := s.insertTable(dedupOnce)
	if err != nil {
		return false, err
	}
	fresh, err = returnsRow(ctx, tx, query, key, window.Microseconds())
	if err != nil && strings.Contains(err.Error(), `near "DELETE": syntax error`) {
		err = fmt.Errorf("%w: if the database is SQLite, set SQLDedup.SQLite", err)
	}
	return fresh, err
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// insertTable writes the table's name, quoted, into one of our statements.
func (s SQLDedup) insertTable(statement string) (string, error) {
	name := s.Table
	if name == "" && s.SQLite {
		name = "errand_dedup"
	} else if name == "" {
		name = "errand.dedup"
	}
	if !tableName.MatchString(name) {
		return "", fmt.Errorf("SQLDedup.Table %q: a name of letters, digits and underscores, or two joined by a dot", name)
	}
	if s.SQLite && strings.Contains(name, ".") {
		return "", fmt.Errorf("SQLDedup.Table %q: a name without a dot, for SQLite", name)
	}
	index := name[strings.LastIndex(name, ".")+1:] + "_until_idx" // in the schema of its table
	return strings.NewReplacer(
		"errand_dedup_until_idx", `"`+index+`"`,
		"errand_dedup", `"`+strings.ReplaceAll(name, ".", `"."`)+`"`,
	).Replace(statement), nil
}
