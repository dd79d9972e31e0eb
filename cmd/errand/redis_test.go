package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// redisURL returns the URL of a namespace that nothing has used.
func redisURL(t testing.TB) string {
	client := redistest.Open(t)
	url := os.Getenv("REDIS_URL")
	if url == "" {
		for addr := range client.Nodes() {
			url = "redis://" + addr
		}
	}
	return url + "?namespace=" + redistest.Namespace()
}

// TestRedisScripts runs the scripts in testdata/redis. POSTGRES is the URL of a second database.
func TestRedisScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/redis",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATABASE_URL", redisURL(env.T().(testing.TB)))
			env.Setenv("POSTGRES", postgrestest.DSN(env.T().(testing.TB)))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// TestMoveToRedisKilled: processes that move a queue from Postgres to Redis, and back, are killed
// again and again. Each job arrives once, as it was.
func TestMoveToRedisKilled(t *testing.T) {
	t.Parallel()
	const jobs = 700
	urls := []string{postgrestest.DSN(t), redisURL(t)}
	var databases []*dburl.Database
	for _, url := range urls {
		d, err := dburl.Open(url, dburl.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		databases = append(databases, d)
	}
	all := clicks(0, jobs)
	for i, j := range all {
		j.Key, j.Group = fmt.Sprint("k", i), "g"
	}
	if err := databases[0].Queue.Enqueue(t.Context(), nil, all...); err != nil {
		t.Fatal(err)
	}
	was := movedJobs(t, databases[0], jobs)
	for i := range 2 {
		from, to := urls[i], urls[1-i]
		for _, n := range []int{1, 250, 500} {
			killMove(t, from, to, func() bool { return pendingClicks(t, databases[1-i]) >= n })
		}
		if r := runErrand(t, from, "queues", "move", "clicks", "--to", to); r.code != exitDone {
			t.Fatalf("the last move: exit code %d, %s", r.code, r.err)
		}
		for payload, r := range movedJobs(t, databases[1-i], jobs) {
			before := was[payload]
			if r.Key != before.Key || r.Group != "g" || !r.CreatedAt.Equal(before.CreatedAt) || !r.ScheduledAt.Equal(before.ScheduledAt) {
				t.Errorf("job %s:\n got %+v\nwant %+v", payload, r.Job, before.Job)
			}
		}
		if n := pendingClicks(t, databases[i]); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
	}
}

// killMove starts a move, and kills it once it is under way, unless it has ended before.
func killMove(t *testing.T, from, to string, isUnderWay func() bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "errand", "queues", "move", "clicks", "--url", from, "--to", to)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !isUnderWay(); {
		if time.Now().After(end) {
			t.Errorf("nothing has arrived: %s", said.String())
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// pendingClicks returns how many jobs wait in the queue.
func pendingClicks(t *testing.T, d *dburl.Database) int {
	t.Helper()
	live, err := liveJobs(t.Context(), d, "clicks")
	if err != nil {
		t.Fatal(err)
	}
	return int(live[queue.StatusPending])
}

// movedJobs returns the jobs by their payloads. Each of them is there once.
func movedJobs(t *testing.T, d *dburl.Database, want int) map[string]queue.Record {
	t.Helper()
	inspector, err := need[queue.Inspector](d)
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := inspector.Jobs(t.Context(), queue.Filter{Queue: "clicks", Limit: 1000})
	if err != nil || len(page) != want {
		t.Fatalf("got %d jobs, error %v; want %d", len(page), err, want)
	}
	found := make(map[string]queue.Record, want)
	for _, r := range page {
		found[string(r.Payload)] = r
	}
	if len(found) != want {
		t.Errorf("got %d different jobs, want %d", len(found), want)
	}
	return found
}
