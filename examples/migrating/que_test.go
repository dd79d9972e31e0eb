package migrating

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// queTable has the columns of que-go's table, by their names and types.
const queTable = `CREATE TABLE que_jobs (
	priority smallint NOT NULL DEFAULT 100, run_at timestamptz NOT NULL DEFAULT now(), job_id bigserial PRIMARY KEY,
	job_class text NOT NULL, args json NOT NULL DEFAULT '[]', error_count integer NOT NULL DEFAULT 0, last_error text,
	queue text NOT NULL DEFAULT '')`

// TestQue: the statement that docs/migrating.md gives does it.
func TestQue(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(page)
	if statement == nil {
		t.Fatal("docs/migrating.md gives no statement")
	}
	db := postgrestest.Open(t)
	exec(t, db, queTable)
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	exec(t, db, `INSERT INTO que_jobs (job_class, args, run_at) VALUES ('mail', '{"n":1}', $1)`, later)
	exec(t, db, `INSERT INTO que_jobs (job_class, queue, priority) VALUES ('chart', 'slow', 5)`)
	if n := count(t, db, string(statement[1])); n != 2 {
		t.Errorf("%d jobs moved, want 2", n)
	}
	if n := count(t, db, `SELECT count(*) FROM que_jobs`); n != 0 {
		t.Errorf("que still has %d jobs, want 0", n)
	}
	got := jobs(t, backend(t, db))
	if len(got) != 2 || !got[0].ScheduledAt.Equal(later) {
		t.Fatalf("errand has %v, want two, the first due %v", got, later)
	}
	for i, want := range []queue.Job{
		{Kind: "mail", Queue: "default", Payload: []byte(`{"n": 1}`), MaxAttempts: 5},
		{Kind: "chart", Queue: "slow", Payload: []byte(`[]`), Priority: -95, MaxAttempts: 5},
	} {
		want.CreatedAt = got[i].CreatedAt
		sameJob(t, want.Kind, got[i].Job, want)
	}
}
