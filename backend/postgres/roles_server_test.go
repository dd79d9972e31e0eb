package postgres_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
)

// migrated runs the migrations in the admin's database.
func (r *roles) migrated(t *testing.T) *roles {
	t.Helper()
	steps, err := postgres.Migrations(r.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		exec(t, r.admin, s.SQL)
	}
	return r
}

// TestRolesTogether: roles belong to the whole server, and may be made in several of its databases
// at once, as by parallel tests of a team's own migrations.
func TestRolesTogether(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	first := newRoles(t).migrated(t)
	second := &roles{dsn: postgrestest.DSN(t), prefix: first.prefix, o: first.o}
	root, _ := ways[0].open(t, second.dsn)
	exec(t, root, fmt.Sprintf(`GRANT CREATE ON DATABASE %s TO %sadmin`, value[string](t, root, `SELECT current_database()`), first.prefix))
	t.Cleanup(func() { first.drop(root) }) // what they own there
	second.admin = second.login(t, "admin", "")
	second.migrated(t)

	begin := func(r *roles) *sql.Tx {
		tx, err := r.admin.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx1, tx2 := begin(first), begin(second)
	exec(t, tx1, first.script(t))
	pid := value[int](t, tx2, `SELECT pg_backend_pid()`)
	done := make(chan error, 1)
	go func() {
		_, err := tx2.ExecContext(t.Context(), second.script(t))
		done <- err
	}()
	eventually(t, "the second script waits for the first", func() bool {
		return value[bool](t, root, `SELECT cardinality(pg_blocking_pids($1)) > 0`, pid)
	})
	if err := tx1.Commit(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the second script: %v", err)
	}
	if err := tx2.Commit(); err != nil {
		t.Error(err)
	}
	for _, r := range []*roles{first, second} {
		r.testColumns(t)
	}
}

// TestRolesOfOthers: the roles exist, and the user who runs the script is no member of the
// migrating role and cannot become one. The error says what to do, and that cures it.
func TestRolesOfOthers(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	r := newRoles(t).migrated(t)
	root, _ := ways[0].open(t, r.dsn)
	for _, role := range []string{"migrator", "enqueuer", "worker", "observer", "operator"} {
		exec(t, root, `CREATE ROLE `+r.prefix+role)
	}
	exec(t, root, `ALTER ROLE `+r.prefix+`admin NOCREATEROLE`)
	_, err := r.admin.ExecContext(t.Context(), r.script(t))
	if err == nil || !strings.Contains(err.Error(), "exists, and the user "+r.prefix+"admin is no member of it") {
		t.Fatalf("got %v, want an error that names the role and the user", err)
	}
	exec(t, root, fmt.Sprintf(`GRANT %smigrator TO %[1]sadmin`, r.prefix))
	r.run(t)
	r.testColumns(t)
}
