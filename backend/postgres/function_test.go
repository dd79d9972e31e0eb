package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
)

func TestSQLFunction(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	id := value[int64](t, db, `SELECT errand.enqueue('default', 'email.welcome', '{"user_id": 42}',
		priority => 3, max_attempts => 7, job_key => 'welcome-42', job_group => 'acme', headers => '{"trace": "abc"}')`)
	if again := value[int64](t, db, `SELECT errand.enqueue('default', 'email.welcome', job_key => 'welcome-42')`); again != id {
		t.Errorf("the same key again: id %d, want the live job's, %d", again, id)
	}
	exec(t, db, `SELECT errand.enqueue('default', 'later', delay => '1 hour')`)
	exec(t, db, `SELECT errand.enqueue('default', 'later', scheduled_at => now() + interval '1 hour')`)
	held := claim(t, q, 10)
	if len(held) != 1 {
		t.Fatalf("claimed %d jobs, want the 1 that is due", len(held))
	}
	j := held[0]
	got := fmt.Sprintf("%v %s %s %d %d %s %s %v", j.ID == id, j.Kind, j.Payload, j.Priority, j.MaxAttempts, j.Key, j.Group, j.Headers)
	if want := `true email.welcome {"user_id": 42} 3 7 welcome-42 acme map[trace:abc]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSQLFunctionInTrigger enqueues from a trigger: with the row, or not at all.
func TestSQLFunctionInTrigger(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `CREATE TABLE orders (id bigint PRIMARY KEY)`)
	exec(t, db, `CREATE FUNCTION ordered() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM errand.enqueue('default', 'order.confirm', jsonb_build_object('order', NEW.id)); RETURN NEW; END $$`)
	exec(t, db, `CREATE TRIGGER ordered AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION ordered()`)
	exec(t, db, `INSERT INTO orders VALUES (1)`)
	exec(t, db, `BEGIN; INSERT INTO orders VALUES (2); ROLLBACK`)
	held := claim(t, q, 10)
	if len(held) != 1 || string(held[0].Payload) != `{"order": 1}` {
		t.Errorf("claimed %v, want the job of order 1 alone", held)
	}
}

// TestSQLFunctionRules: the SQL function refuses what Go's Enqueue refuses, and names the same
// argument.
func TestSQLFunctionRules(t *testing.T) {
	t.Parallel()
	db, _ := fresh(t, postgres.Options{})
	long := strings.Repeat("x", 201)
	for _, c := range []struct{ field, args string }{
		{"queue", `'', 'k'`},
		{"queue", `NULL, 'k'`},
		{"queue", `'` + long + `', 'k'`},
		{"queue", `E'a\nb', 'k'`},
		{"queue", `'é', 'k'`},
		{"kind", `'q', ''`},
		{"kind", `'q', '` + long + `'`},
		{"payload", `'q', 'k', to_jsonb(repeat('x', 1048576))`},
		{"delay", `'q', 'k', delay => '-1 s'`},
		{"delay", `'q', 'k', delay => '1 s', scheduled_at => now()`},
		{"scheduled_at", `'q', 'k', scheduled_at => 'infinity'`},
		{"max_attempts", `'q', 'k', max_attempts => 0`},
		{"job_key", `'q', 'k', job_key => ''`},
		{"job_key", `'q', 'k', job_key => repeat('x', 501)`},
		{"job_group", `'q', 'k', job_group => repeat('x', 201)`},
		{"on_duplicate", `'q', 'k', job_key => 'a', on_duplicate => 'drop'`},
		{"on_duplicate", `'q', 'k', on_duplicate => 'replace'`},
		{"max_delay", `'q', 'k', job_key => 'a', delay => '1 s', max_delay => '1 s'`},
		{"max_delay", `'q', 'k', job_key => 'a', on_duplicate => 'replace', max_delay => '1 s'`},
		{"max_delay", `'q', 'k', job_key => 'a', on_duplicate => 'replace', delay => '2 s', max_delay => '1 s'`},
		{"max_delay", `'q', 'k', job_key => 'a', on_duplicate => 'replace', delay => '2 s', max_delay => '36501 days'`},
		{"headers", `'q', 'k', headers => '[]'`},
		{"headers", `'q', 'k', headers => '{"a": 1}'`},
	} {
		_, err := db.ExecContext(t.Context(), `SELECT errand.enqueue(`+c.args+`)`)
		if err == nil || !strings.Contains(err.Error(), "errand: invalid "+c.field) {
			t.Errorf("enqueue(%.60s): error %v, want one that names %s", c.args, err, c.field)
		}
	}
	if got := value[int](t, db, `SELECT count(*) FROM errand.jobs`); got != 0 {
		t.Errorf("%d jobs written, want 0", got)
	}
}

// TestSQLFunctionNotifies: the SQL function notifies as Enqueue does, if a worker sleeps.
func TestSQLFunctionNotifies(t *testing.T) {
	t.Parallel()
	db, q, woken := listening(t)
	if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `SELECT errand.enqueue('default', 'test')`)
	await(t, woken)
}

// TestSQLFunctionReplaces: the SQL function replaces as Enqueue does.
func TestSQLFunctionReplaces(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	const debounced = `SELECT errand.enqueue('default', $1, $2, 3, delay => '1 month', max_attempts => 7, job_key => 'a',
		headers => '{"trace": "abc"}', job_group => 'g', on_duplicate => 'replace', max_delay => '1 month')`
	const at = `SELECT extract(epoch FROM scheduled_at - (created_at + interval '1 month'))::float8 FROM errand.jobs WHERE id = $1`
	first := value[int64](t, db, debounced, "one", `"1"`)
	exec(t, db, `UPDATE errand.jobs SET created_at = created_at - interval '1 minute'`)
	if second := value[int64](t, db, debounced, "two", `"2\u001e"`); second != first {
		t.Errorf("replacing a pending job: id %d, want its %d", second, first)
	}
	if late := value[float64](t, db, at, first); late != 0 {
		t.Errorf("replaced within a max_delay of a month: due %v s after that, want 0", late)
	}
	if kept := value[int64](t, db, `SELECT errand.enqueue('default', 'three', job_key => 'a', on_duplicate => 'keep')`); kept != first {
		t.Errorf("keeping a pending job: id %d, want its %d", kept, first)
	}
	if now := value[int64](t, db, `SELECT errand.enqueue('default', 'two', '"2\u001e"', 3, NULL, NULL, 7, 'a', '{"trace": "abc"}', 'g', 'replace')`); now != first {
		t.Errorf("replacing a pending job: id %d, want its %d", now, first)
	}
	held := claim(t, q, 10)
	if len(held) != 1 {
		t.Fatalf("claimed %d jobs, want the 1 that was replaced", len(held))
	}
	j := held[0]
	got := fmt.Sprintf("%s %s %d %d %s %s %v", j.Kind, j.Payload, j.Priority, j.MaxAttempts, j.Key, j.Group, j.Headers)
	if want := `two "2\u001e" 3 7 a g map[trace:abc]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if next := value[int64](t, db, debounced, "four", `"4"`); next == first {
		t.Error("replacing a running job: the same id, want a new job")
	}
}
