package router_test

import (
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// forwardChild tells this binary that it is a forwarder of a test, and where the databases are.
const forwardChild = "ERRAND_FORWARD_CHILD"

// TestForwardKilled: processes that forward are killed again and again. Each job arrives once.
func TestForwardKilled(t *testing.T) {
	extent.Long(t)
	if dsn := os.Getenv(forwardChild); dsn != "" {
		db, err := sql.Open("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		_ = killedRouter(t, db).Upkeep(t.Context(), driver.UpkeepOptions{Logger: quiet}) // until it is killed
		return
	}
	const jobs, kills = 1000, 4
	dsn := postgrestest.DSN(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	postgresTarget(t, db)
	q := killedRouter(t, db)
	var all []*queue.Job
	for i := range jobs {
		all = append(all, job("clicks", i))
	}
	for i := range kills {
		inTx(t, db, q, all[i*jobs/kills:(i+1)*jobs/kills]...)
		killAfter(t, "TestForwardKilled", dsn, func() bool { return arrived(t, db) > i*jobs/kills })
	}
	reclaimKilled(t, db, q, jobs)
	keepUp(t, q)
	await(t, "an empty outbox", func() bool { return outboxIsEmpty(t, q) })
	wantNumbers(t, pending(t, q, "clicks"), jobs)
	if n := arrived(t, db); n != jobs {
		t.Errorf("jobs that have arrived: got %d, want %d", n, jobs)
	}
}

func killedRouter(t *testing.T, db *sql.DB) *router.Queue {
	t.Helper()
	h := newHome(t, db)
	target, err := postgres.New(db, postgres.Options{Schema: "other"})
	if err != nil {
		t.Fatal(err)
	}
	return route(t, router.Routes{"*": h.q, "clicks": target}, router.Options{Logger: quiet})
}

// arrived returns how many jobs the other schema has.
func arrived(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM other.jobs`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// reclaimKilled takes back the jobs of forwarders that were killed, as if their leases were over.
func reclaimKilled(t *testing.T, db *sql.DB, q *router.Queue, jobs int) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), `UPDATE errand.jobs SET locked_at = now() - interval '1 hour', locked_until = now() - interval '1 minute' WHERE status = 'running'`); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Reclaim(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
}

// killAfter starts a process of that test that forwards, and kills it once it is under way.
func killAfter(t *testing.T, test, databases string, isUnderWay func() bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), forwardChild+"="+databases)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !isUnderWay(); {
		if time.Now().After(end) {
			t.Errorf("nothing has arrived: %s", out.String())
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
