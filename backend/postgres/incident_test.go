package postgres_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// incident returns the statements that operations.md numbers, the first at index 1.
func incident(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sql\n-- 1. ")
	block, _, _ = strings.Cut(block, "```")
	statements := regexp.MustCompile(`(?m)^-- \d\. .*$`).Split("\n-- 1. "+block, -1)
	if len(statements) != 5 {
		t.Fatalf("found %d statements, want 4", len(statements)-1)
	}
	return statements
}

// TestPauseAKind: statement 1 pauses a kind, and statement 2 lets it go on.
func TestPauseAKind(t *testing.T) {
	t.Parallel()
	db, q := guideDB(t)
	statements := incident(t)
	for _, c := range []struct {
		statement string
		want      []string
	}{{statements[1], []string{"email.welcome"}}, {statements[1], []string{"email.welcome"}}, {statements[2], nil}, {statements[2], nil}} {
		exec(t, db, c.statement)
		if kinds, err := q.PausedKinds(t.Context()); err != nil || !slices.Equal(kinds, c.want) {
			t.Errorf("paused kinds: got %v, %v; want %v", kinds, err, c.want)
		}
	}
}

// TestRedriveTheCrashed: statement 3 finds the jobs that died of a crash, and no others.
func TestRedriveTheCrashed(t *testing.T) {
	t.Parallel()
	db, q := guideDB(t)
	enqueue(t, q, &queue.Job{Kind: "email.welcome", MaxAttempts: 1}, &queue.Job{Kind: "email.welcome", MaxAttempts: 1})
	failed := claim(t, q, 1)[0]
	settle(t, q, queue.Outcome{Job: failed, Action: queue.Dead, Err: errors.New("no such user")})
	crashed := claim(t, q, 1)[0]
	exec(t, db, `UPDATE errand.jobs SET locked_at = now() - interval '2 minutes', locked_until = now() - interval '1 minute' WHERE id = $1`, crashed.ID)
	if jobs, err := q.Reclaim(t.Context(), 10); err != nil || len(jobs) != 1 {
		t.Fatalf("reclaimed %d, %v; want 1", len(jobs), err)
	}
	id := value[int64](t, db, incident(t)[3])
	if n, err := q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{id}}); id != crashed.ID || n != 1 || err != nil {
		t.Errorf("found job %d and redrove %d, %v; want job %d", id, n, err, crashed.ID)
	}
}

// TestWorkersAlive: statement 4 shows the workers that have reported themselves, and not the
// vanished ones.
func TestWorkersAlive(t *testing.T) {
	t.Parallel()
	db, q := guideDB(t)
	for _, name := range []string{"a", "b", "c"} {
		if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: name, Busy: 3}}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '36 seconds' WHERE worker = 'b'`)
	got := value[string](t, db, `SELECT string_agg(worker || busy::text, ' ' ORDER BY worker) FROM (`+
		strings.TrimSuffix(strings.TrimSpace(incident(t)[4]), ";")+`) AS alive`)
	if got != "a3 c3" {
		t.Errorf("got %s, want a3 c3", got)
	}
}

// TestRolesOfOperations: the observing and the working role run the statements of operations.md
// that the page allows them.
func TestRolesOfOperations(t *testing.T) {
	r := ready(t)
	observer, worker := r.user(t, "observer"), r.user(t, "worker")
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	selects := 0
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		named := strings.ReplaceAll(block[1], "errand.", `"`+r.o.Schema+`".`)
		for statement := range strings.SplitSeq(strings.TrimSpace(named), ";\n") {
			exec(t, worker, statement)
			if regexp.MustCompile(`(?m)^(UPDATE|INSERT|DELETE) `).MatchString(statement) {
				_, err := observer.ExecContext(t.Context(), statement)
				denied(t, statement, err)
				continue
			}
			selects++
			exec(t, observer, statement)
		}
	}
	if selects < 4 {
		t.Errorf("found only %d statements for the observing role", selects)
	}
}
