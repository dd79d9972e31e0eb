package reader

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// CheckTimeout is how long one check may take.
const CheckTimeout = 2 * time.Second

const postgresDialect = "postgres"

//go:embed sql
var sqlFiles embed.FS

// Server is a PostgreSQL server as doctor.Examine and explain.Job ask it. It is for one call of
// them.
type Server struct {
	statements
	Tables driver.Tables
	Name   string // such as "PostgreSQL 18.1"
	// seesAll is whether the role may see what sessions of other roles do.
	SeesAll  bool
	Role     string
	Identity Identity
	// known are answers that several checks need. What a check notes as its SQL has their statements,
	// too.
	known struct {
		settings map[string]string
		table    *tableStats
	}
}

// Table returns the name of one of errand's tables, domains or indexes, as a statement has it.
func (s *Server) Table(name string) string { return words.Identifier(s.Tables.Schema) + "." + name }

// Load returns the text of sql/postgres/name.sql, with the backend's schema in place.
func (s *Server) Load(name string) string {
	text, err := sqlFiles.ReadFile("sql/postgres/" + name + ".sql")
	if err != nil {
		panic(err) // the file is part of the program
	}
	schema := s.Tables.Schema
	return strings.NewReplacer("'errand'::regnamespace", `'"`+schema+`"'::regnamespace`, "'errand'", "'"+schema+"'", "errand.", `"`+schema+`".`).Replace(string(text))
}

// Rows runs sql/postgres/name.sql in a read-only transaction of its own, and calls scan for each
// row. The server ends the statement after CheckTimeout, also if this process is killed.
func (s *Server) Rows(ctx context.Context, name string, scan func(*sql.Rows) error, args ...any) error {
	return s.Query(ctx, s.Load(name), scan, args...)
}

// Query does the same with a statement.
func (s *Server) Query(ctx context.Context, text string, scan func(*sql.Rows) error, args ...any) error {
	return s.queryAfter(ctx, "", text, scan, args...)
}

// queryAfter does the same, and first runs a statement that changes settings, "" for none.
func (s *Server) queryAfter(ctx context.Context, first, text string, scan func(*sql.Rows) error, args ...any) error {
	tx, err := s.Tables.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, confine); err != nil {
		return err
	}
	if first != "" {
		s.Note(first)
		if _, err := tx.ExecContext(ctx, first); err != nil {
			return err
		}
	}
	s.Note(text, args...)
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// confine bounds each statement of the transaction. Statements wait for no lock for long: an ALTER
// TABLE that waits would otherwise keep all claims waiting behind them. The server leaves a schema
// of the search_path out of definitions, so that of the role does not count. It compiles nothing:
// the table's length alone can make a plan so costly that compiling would take most of the time.
var confine = fmt.Sprintf("SELECT set_config('statement_timeout', '%d', true), set_config('lock_timeout', '500', true), "+
	"set_config('search_path', 'pg_catalog', true), set_config('jit', 'off', true)", CheckTimeout.Milliseconds())

// Row runs sql/postgres/name.sql, which returns one row.
func (s *Server) Row(ctx context.Context, name string, targets ...any) error {
	found := false
	err := s.Rows(ctx, name, func(r *sql.Rows) error {
		found = true
		return r.Scan(targets...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// The codes of errors that mean more than that the statement has failed.
const (
	InsufficientPrivilege = "42501"
	UndefinedTable        = "42P01"
	UndefinedColumn       = "42703"
	UndefinedFunction     = "42883"
	InvalidSchema         = "3F000"
	QueryCanceled         = "57014"
	LockNotAvailable      = "55P03"
	NotSupported          = "0A000"
	internalError         = "XX000"
)

// SQLState returns the SQLSTATE code of err, which the errors of pgx and lib/pq tell, or "".
func SQLState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}
