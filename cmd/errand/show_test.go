package main

import (
	"database/sql"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
)

// TestShowWithoutResults: jobs show --payload shows a role of docs/roles.sql what it may read, and
// says that it shows no output and no progress if the role may not read those.
func TestShowWithoutResults(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	clitest.WithJob(t, dsn)
	admin, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	var database string
	if err := admin.QueryRowContext(t.Context(), `SELECT current_database()`).Scan(&database); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	do := func(statement string) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	// Roles belong to the whole server: these have names of their own.
	do(regexp.MustCompile(`\berrand_(migrator|enqueuer|worker|observer|operator)\b`).ReplaceAllString(string(script), database+"_$1"))
	do(`CREATE ROLE ` + database + `_ann LOGIN PASSWORD 'p' IN ROLE ` + database + `_observer`)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(database+"_ann", "p")
	const noResult = "errand: job 1: output and progress are not shown: "
	show := func(isShown bool, says string) {
		t.Helper()
		r := runErrand(t, u.String(), "jobs", "show", "1", "--payload")
		if r.code != cli.ExitDone || !strings.Contains(r.out, says) || strings.Contains(r.err, noResult) == isShown {
			t.Errorf("exit code %d, %q, %q, want %q", r.code, r.out, r.err, says)
		}
	}
	show(false, "may not read payloads")
	do(`GRANT SELECT (payload, headers) ON errand.jobs TO ` + database + `_ann`)
	show(false, "\npayload  ")
	do(`GRANT SELECT ON errand.results TO ` + database + `_ann`)
	show(true, "\npayload  ")
}
