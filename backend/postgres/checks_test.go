package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestChecks: what the table refuses from any writer, and what it accepts.
func TestChecks(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, _ := fresh(t, postgres.Options{})
	for _, c := range []struct {
		columns, values string
		refused         bool
	}{
		{"scheduled_at", "'infinity'", true},
		{"scheduled_at", "'-infinity'", true},
		{"scheduled_at", "'9999-12-31 23:59:59.9999999Z'", false},
		{"headers", "jsonb_build_object('a', repeat('x', 65 << 20))", true},
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
	extent.Long(t)
	t.Parallel()
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

// TestReplaceTooLong: a job does not replace one by a payload that the table does not take.
func TestReplaceTooLong(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, _ := fresh(t, postgres.Options{})
	q := backend(t, db, postgres.Options{MaxPayload: 100 << 20})
	enqueue(t, q, &queue.Job{Kind: "test", Key: "k", Payload: []byte(`1`)})
	err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Key: "k", OnDuplicate: queue.Replace,
		Payload: []byte(`"` + strings.Repeat("x", 65<<20) + `"`)})
	if bad, ok := errors.AsType[*queue.InvalidError](err); !ok || bad.Field != "Payload" {
		t.Errorf("a payload beyond what the table takes: error %.200v, want an InvalidError for Payload", err)
	}
	if left := value[string](t, db, `SELECT payload::text FROM errand.jobs`); left != "1" {
		t.Errorf("the waiting job has a payload of %d bytes, want its own", len(left))
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

// TestMigrateLetsOthersWork: while Migrate waits for a long transaction, other sessions can use the
// table.
func TestMigrateLetsOthersWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	db := migrated(t, 1)
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
