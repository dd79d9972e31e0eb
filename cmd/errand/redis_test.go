package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// redisURL returns the URL of a namespace that nothing has used, on one node.
func redisURL(t testing.TB) string {
	client := redistest.Open(t)
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = urlOf(client)
	}
	return url + "?namespace=" + redistest.Namespace()
}

// clusterURL returns the same on a cluster.
func clusterURL(t testing.TB) string {
	return urlOf(redistest.OpenCluster(t)) + "?namespace=" + redistest.Namespace()
}

func urlOf(client rueidis.Client) string {
	return "redis://" + strings.Join(slices.Sorted(maps.Keys(client.Nodes())), ",")
}

// TestRedisScripts runs the scripts in testdata/redis on one node. With ERRAND_TESTS=whole it runs
// all of them on a cluster, too, and otherwise one. POSTGRES is the URL of a second database.
func TestRedisScripts(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{"node": redisURL, "cluster": clusterURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, files := "testdata/redis", []string(nil)
			if name == "cluster" && !extent.Whole() {
				dir, files = "", []string{"testdata/redis/ops.txtar"} // the others repeat what the node proves
			}
			testscript.Run(t, testscript.Params{
				Dir:                 dir,
				Files:               files,
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("DATABASE_URL", url(env.T().(testing.TB)))
					env.Setenv("POSTGRES", postgrestest.DSN(env.T().(testing.TB)))
					return nil
				},
				Condition: func(condition string) (bool, error) { return condition == name, nil },
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits, "serve": startWorker, "eventually": eventually, "jobid": jobID,
				},
			})
		})
	}
}

// startWorker starts a worker of a queue until the script ends: serve NAME QUEUE. Jobs of the kind
// fail fail, and those of the kind slow run until they are cancelled.
func startWorker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: serve NAME QUEUE")
	}
	d, err := dburl.Open(ts.Getenv("DATABASE_URL"), dburl.Options{})
	ts.Check(err)
	mux := queue.NewMux()
	mux.Handle("work", queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
	mux.Handle("fail", queue.HandlerFunc(func(context.Context, *queue.Job) error {
		return queue.RetryAfter(time.Hour, errors.New("the mail server said 503"))
	}))
	mux.Handle("slow", queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w := engine.Worker{Backend: d.Queue, Handler: mux, Name: args[0], Queues: []string{args[1]}, Logger: slog.New(slog.DiscardHandler)}
	go func() { ended <- w.Run(ctx) }()
	ts.Defer(func() {
		stop()
		if err := <-ended; err != nil {
			ts.Logf("the worker: %v", err)
		}
		d.Close()
	})
}

// eventually runs a program again and again until its output matches, at most for a minute:
// eventually PATTERN PROGRAM ARG...
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM ARG...")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(time.Minute); ; {
		_ = ts.Exec(args[1], args[2:]...) // what it answers counts
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("no match of %q in %s", pattern, ts.ReadFile("stdout"))
		}
	}
}

// jobID sets a variable to the ID of the newest job of a kind: jobid NAME KIND
func jobID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: jobid NAME KIND")
	}
	ts.Check(ts.Exec("errand", "jobs", "list", "--kind", args[1], "-o", "jsonl"))
	id := regexp.MustCompile(`"id":(\d+)`).FindStringSubmatch(ts.ReadFile("stdout"))
	if id == nil {
		ts.Fatalf("no job of the kind %s", args[1])
	}
	ts.Setenv(args[0], id[1])
}

// TestRedisRefuses: what keeps a command from a server is said in a sentence. A replica can be
// examined, and takes no jobs.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	redistest.Open(t) // skips the test if there is no redis-server
	start := func(settings map[string]string) string {
		t.Helper()
		s, err := redistest.Start(t.Context(), redistest.Options{Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s.Addrs[0]
	}
	master := start(nil)
	if r := runErrand(t, "redis://"+master, "enqueue", "k"); r.code != cli.ExitFailed || !strings.Contains(r.err, "no program has used this namespace yet") {
		t.Errorf("a new namespace: exit code %d, %s", r.code, r.err)
	}
	if r := runErrand(t, "redis://"+master, "migrate", "up", "--create"); r.code != cli.ExitDone {
		t.Fatalf("migrate up: %s", r.err)
	}
	host, port, _ := strings.Cut(master, ":")
	replica := start(map[string]string{"replicaof": host + " " + port})
	locked := startLocked(t)
	for _, c := range []struct {
		url, command string
		code         int
		says         string
	}{
		{"redis://" + replica, "enqueue k", cli.ExitFailed, "is a replica, which takes no jobs: its master is " + master},
		{"redis://" + replica, "doctor", cli.ExitFound, "give the programs the URL of its master, " + master},
		{"redis://" + locked, "queues list", cli.ExitFailed, "no connection to Redis: the server wants a password; put"},
		{"redis://:wrong@" + locked, "queues list", cli.ExitFailed, "no connection to Redis: the server refuses this user or its password; look"},
		{"redis://little:x@" + locked, "queues list", cli.ExitRefused, "this user lacks"},
	} {
		for end := time.Now().Add(time.Minute); ; { // until the replica has what its master has
			r := runErrand(t, c.url, strings.Fields(c.command)...)
			if r.code == c.code && strings.Contains(r.out+r.err, c.says) && !strings.Contains(r.err, "wrong") {
				break
			}
			if time.Now().After(end) {
				t.Errorf("errand %s --url %s: exit code %d, %s%s; want %d with %q", c.command, c.url, r.code, r.out, r.err, c.code, c.says)
				break
			}
		}
	}
}

// startLocked starts a server that wants a password. The user little may only connect.
func startLocked(t *testing.T) (addr string) {
	t.Helper()
	s, err := redistest.Start(t.Context(), redistest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, words := range [][]string{{"ACL", "SETUSER", "little", "on", ">x", "~*", "+@connection"}, {"CONFIG", "SET", "requirepass", "hunter2"}} {
		if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addrs[0]
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
	all := clitest.Clicks(0, jobs)
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
		if r := runErrand(t, from, "queues", "move", "clicks", "--to", to); r.code != cli.ExitDone {
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
	cmd := exec.CommandContext(t.Context(), "errand", "queues", "move", "clicks", "--url", from, "--to", to, "--timeout", "1m")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed, or what follows tells
	}()
	for isEnded := false; !isEnded && !isUnderWay(); {
		select {
		case <-ended:
			isEnded = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	if <-ended; !isUnderWay() {
		t.Errorf("it ended before so much had arrived: %s", said.String())
	}
}

// pendingClicks returns how many jobs wait in the queue.
func pendingClicks(t *testing.T, d *dburl.Database) int {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
	counts, err := inspector.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Queue == "clicks" && c.Status == queue.StatusPending {
			return int(c.Jobs)
		}
	}
	return 0
}

// movedJobs returns the jobs by their payloads. Each of them is there once.
func movedJobs(t *testing.T, d *dburl.Database, want int) map[string]queue.Record {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
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
