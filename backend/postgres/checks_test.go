package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// TestChecks: what the table refuses from any writer, and what it accepts.
func TestChecks(t *testing.T) {
	db, _ := fresh(t, postgres.Options{})
	for _, c := range []struct {
		columns, values string
		refused         bool
	}{
		{"scheduled_at", "'infinity'", true},
		{"scheduled_at", "'-infinity'", true},
		{"scheduled_at", "'9999-12-31 23:59:59.9999999Z'", false},
		{"headers", "jsonb_build_object('a', (SELECT string_agg(i::text, '') FROM generate_series(1, 10000000) AS i))", true},
		{"headers", `'{}'`, false},
		{"max_attempts", "1000001", true},
		{"max_attempts", "1000000", false},
		{"queue", "repeat('x', 201)", true},
		{"kind", "repeat('x', 201)", true},
		{"payload", "to_jsonb(repeat('x', 65 << 20))", true},
		{"payload", "to_jsonb(repeat('x', 60 << 20))", false},
	} {
		_, err := db.ExecContext(t.Context(), `INSERT INTO errand.jobs (`+c.columns+`) VALUES (`+c.values+`)`)
		switch {
		case !c.refused && err != nil:
			t.Errorf("%s of %s: error %.200v, want none", c.columns, c.values, err)
		case c.refused && (sqlState(err) != "23514" || !strings.Contains(err.Error(), "jobs_values_check")):
			t.Errorf("%s of %s: error %.200v, want one that names jobs_values_check", c.columns, c.values, err)
		}
	}
}

// TestChecksTakeWhatGoTakes: the table accepts the largest job that Go accepts.
func TestChecksTakeWhatGoTakes(t *testing.T) {
	_, q := fresh(t, postgres.Options{})
	headers := make(map[string]string)
	for i := range 1 << 15 { // names of two bytes: nothing takes more room in a jsonb beside its text
		headers[string([]byte{byte(1 + i%127), byte(1 + i/127%127)})+strings.Repeat("x", i/127/127)] = ""
	}
	for k := range headers {
		if len(headers) > 1<<14 {
			delete(headers, k)
		}
	}
	enqueue(t, q,
		&queue.Job{Kind: "test", Payload: []byte("[" + strings.Repeat("1,", 1<<19-2) + "1]")},
		&queue.Job{Kind: "test", Headers: headers, MaxAttempts: 1_000_000, Key: strings.Repeat("k", 500)},
		&queue.Job{Kind: "test", ScheduledAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)},
		&queue.Job{Kind: "test", ScheduledAt: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)},
		&queue.Job{Kind: "test", Delay: 100 * 365 * 24 * time.Hour})
	large := backend(t, postgrestest.Open(t), postgres.Options{MaxPayload: 100 << 20})
	err := large.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Payload: []byte(`"` + strings.Repeat("x", 70<<20) + `"`)})
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "Payload" {
		t.Errorf("a payload beyond what the table takes: error %.200v, want an InvalidError for Payload", err)
	}
}

// migrated is a database with the first steps of the schema, as a migration tool runs them.
func migrated(t *testing.T, last int) *sql.DB {
	t.Helper()
	db := postgrestest.Open(t)
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, `DROP SCHEMA errand CASCADE`)
	for _, s := range steps[:last] {
		exec(t, db, s.SQL)
	}
	return db
}

// TestMigrateBadRows: Migrate changes rows that the checks would refuse, so that they pass, and the
// jobs run.
func TestMigrateBadRows(t *testing.T) {
	db := migrated(t, 2)
	for _, row := range badRows {
		exec(t, db, `INSERT INTO errand.jobs (kind, `+row.columns+`) VALUES ('test', `+row.values+`)`)
	}
	exec(t, db, `INSERT INTO errand.jobs (kind, headers) VALUES ('mixed', '{"a": "b", "c": 1}')`)
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, db, `SELECT count(*) FROM pg_constraint WHERE conrelid = 'errand.jobs'::regclass AND NOT convalidated`); n != 0 {
		t.Errorf("%d constraints are not validated", n)
	}
	if got := value[string](t, db, `SELECT headers::text FROM errand.jobs WHERE kind = 'mixed'`); got != `{"a": "b"}` {
		t.Errorf("headers: got %s, want what is a string", got)
	}
	if got, want := len(claim(t, backend(t, db, postgres.Options{}), 100)), len(badRows)+1; got != want {
		t.Errorf("claimed %d jobs, want %d", got, want)
	}
}

// TestMigrateLongRows: Migrate moves jobs that are longer than the table accepts to the archive,
// also those that are written while it is under way. They keep no other job from running.
func TestMigrateLongRows(t *testing.T) {
	if testing.Short() {
		t.Skip("writes some hundred megabytes")
	}
	t.Parallel()
	db := migrated(t, 2)
	exec(t, db, `ALTER TABLE errand.jobs ALTER payload SET STORAGE EXTERNAL, ALTER headers SET STORAGE EXTERNAL`)
	insert := func(kind, columns, values string) {
		exec(t, db, `INSERT INTO errand.jobs (kind, priority, `+columns+`) VALUES ('`+kind+`', -1, `+values+`)`)
	}
	const long = `repeat('x', 65 << 20)`
	insert("payload", "payload", `to_jsonb(`+long+`)`)
	insert("headers", "headers", `jsonb_build_object('a', `+long+`)`)
	insert("ended", "status, payload", `'completed', to_jsonb(`+long+`)`)
	insert("short", "payload", `to_jsonb(repeat('x', 60 << 20))`)
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mend, _, _ := strings.Cut(steps[2].SQL, "ALTER TABLE")
	_, check, _ := strings.Cut(steps[2].SQL, mend)
	exec(t, db, mend)
	insert("late", "payload", `to_jsonb(`+long+`)`)
	exec(t, db, check)
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Fatal(err)
	}

	if got := claim(t, backend(t, db, postgres.Options{}), 10); len(got) != 1 || got[0].Kind != "short" {
		t.Errorf("claimed %d jobs, want the short one", len(got))
	}
	got := value[string](t, db, `SELECT string_agg(concat_ws(' ', kind, status, last_error), '; ' ORDER BY kind)
		FROM errand.jobs_archive WHERE octet_length(payload::text) > 65 << 20 OR octet_length(headers::text) > 65 << 20`)
	const reason = `errand: archived while pending: payload or headers take more than 64 MiB`
	if want := "ended completed; headers dead " + reason + "; late dead " + reason + "; payload dead " + reason; got != want {
		t.Errorf("in the archive: got %s, want %s", got, want)
	}
}

// TestMigrateLetsOthersWork: while Migrate waits for a long transaction, other sessions can use the
// table.
func TestMigrateLetsOthersWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	db := migrated(t, 2)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, `INSERT INTO errand.jobs (kind) VALUES ('test')`)
	done := make(chan error, 1)
	go func() { done <- postgres.Migrate(t.Context(), db, postgres.Options{}) }()
	eventually(t, "Migrate waits", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_locks WHERE relation = 'errand.jobs'::regclass AND NOT granted`) == 1
	})
	begun := time.Now()
	exec(t, db, `INSERT INTO errand.jobs (kind) VALUES ('test')`)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("beside Migrate an INSERT took %v, want about 2 s at most", took)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Migrate: %v", err)
	}
	if err := postgres.Check(t.Context(), db, postgres.Options{}); err != nil {
		t.Error(err)
	}
}
