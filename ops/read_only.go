package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// mayNotWrite is a place where default_transaction_read_only is on: for a role, for a database, for
// both, or in the server's configuration if both are "".
type mayNotWrite struct{ role, database string }

// readOnly returns the places that hold for this database.
func (s *server) readOnly(ctx context.Context) (places []mayNotWrite, err error) {
	err = s.rows(ctx, "read_only", func(r *sql.Rows) error {
		var p mayNotWrite
		err := r.Scan(&p.role, &p.database)
		places = append(places, p)
		return err
	})
	return places, err
}

func (p mayNotWrite) String() string {
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
func (p mayNotWrite) reset() string {
	const setting = "default_transaction_read_only"
	switch {
	case p.role != "" && p.database != "":
		return fmt.Sprintf("ALTER ROLE %s IN DATABASE %s RESET %s", identifier(p.role), identifier(p.database), setting)
	case p.role != "":
		return fmt.Sprintf("ALTER ROLE %s RESET %s", identifier(p.role), setting)
	case p.database != "":
		return fmt.Sprintf("ALTER DATABASE %s RESET %s", identifier(p.database), setting)
	}
	return fmt.Sprintf("ALTER SYSTEM RESET %s, or in the server's command line or configuration file, then SELECT pg_reload_conf()", setting)
}

// identifier quotes a name for SQL.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// writeAgain returns how to undo all of the places. The server refuses these statements in a
// session that is read-only itself.
func writeAgain(places []mayNotWrite) string {
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

// placesText says where the setting is on.
func placesText(places []mayNotWrite) string {
	var texts []string
	for _, p := range places {
		texts = append(texts, p.String())
	}
	if len(texts) == 0 {
		return "default_transaction_read_only is on for this session"
	}
	return "default_transaction_read_only is on " + enumerate(texts)
}

// whyCannotWrite returns the reason if the server takes no writes from new sessions. Workers that
// had connected before may go on: if one of them claims, that is no reason.
func whyCannotWrite(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	if q.Server.identity.isStandby {
		return []Reason{{ID: "read-only", Level: Warn, Verdict: "The server is a standby, which only reads: nobody claims there.",
			Evidence: []string{"what is said here is as old as what the standby has received"}, Remedy: askPrimary}}, nil
	}
	if slices.ContainsFunc(q.workers, claims) {
		return nil, nil
	}
	places, err := q.Server.readOnly(ctx)
	if ok, err := q.tryOrNote(ctx, "whether the database may be written to", err); !ok || len(places) == 0 && !q.Server.identity.isReadOnly {
		return nil, err
	}
	return []Reason{{ID: "read-only", Level: Fail, Remedy: writeAgain(places),
		Verdict:  "Workers can neither claim nor report themselves: " + placesText(places) + ".",
		Evidence: []string{"no worker is known whose claims succeed"}}}, nil
}

// askPrimary is what to do about a standby.
const askPrimary = "connect to the primary: with several hosts in the URL, add target_session_attrs=read-write"
