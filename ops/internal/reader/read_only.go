package reader

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/errandhq/errand/ops/internal/words"
)

// ReadOnlyPlace is a place where default_transaction_read_only is on: for a role, for a database,
// for both, or in the server's configuration if both are "".
type ReadOnlyPlace struct{ role, database string }

// ReadOnly returns the places that hold for this database.
func (s *Server) ReadOnly(ctx context.Context) (places []ReadOnlyPlace, err error) {
	err = s.Rows(ctx, "read_only", func(r *sql.Rows) error {
		var p ReadOnlyPlace
		err := r.Scan(&p.role, &p.database)
		places = append(places, p)
		return err
	})
	return places, err
}

func (p ReadOnlyPlace) String() string {
	switch {
	case p.role != "" && p.database != "":
		return fmt.Sprintf("for the role %s in the database %s", p.role, p.database)
	case p.role != "":
		return "for the role " + p.role
	case p.database != "":
		return "for the database " + p.database
	}
	return "in the server's configuration"
}

// reset returns the statement that undoes it.
func (p ReadOnlyPlace) reset() string {
	const setting = "default_transaction_read_only"
	switch {
	case p.role != "" && p.database != "":
		return fmt.Sprintf("ALTER ROLE %s IN DATABASE %s RESET %s", words.Identifier(p.role), words.Identifier(p.database), setting)
	case p.role != "":
		return fmt.Sprintf("ALTER ROLE %s RESET %s", words.Identifier(p.role), setting)
	case p.database != "":
		return fmt.Sprintf("ALTER DATABASE %s RESET %s", words.Identifier(p.database), setting)
	}
	return fmt.Sprintf("ALTER SYSTEM RESET %s, or in the server's command line or configuration file, then SELECT pg_reload_conf()", setting)
}

// AllowWrites returns how to undo all of the places. The server refuses these statements in a
// session that is read-only itself.
func AllowWrites(places []ReadOnlyPlace) string {
	var statements []string
	for _, p := range places {
		statements = append(statements, p.reset())
	}
	if len(statements) == 0 {
		statements = []string{"the URL, PGOPTIONS or the program itself sets it for this session: mend that"}
	}
	return "in a session that may write itself (PGOPTIONS='-c default_transaction_read_only=off' psql, or SET default_transaction_read_only = off): " +
		strings.Join(statements, "; ") + ". Then restart the workers: sessions keep the setting with which they began"
}

// DescribePlaces says where the setting is on.
func DescribePlaces(places []ReadOnlyPlace) string {
	var texts []string
	for _, p := range places {
		texts = append(texts, p.String())
	}
	if len(texts) == 0 {
		return "default_transaction_read_only is on for this session"
	}
	return "default_transaction_read_only is on " + words.Enumerate(texts)
}
