package dburl_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// updateDumps writes the dump of the release to come, testdata/next.*.sql, anew; a minute later the
// test passes. A release renames it (docs/releasing.md), and then it never changes again.
var updateDumps = flag.Bool("update", false, "write testdata/next.*.sql anew")

const century = 100 * 365 * 24 * time.Hour // how long the jobs of a dump are kept

// upgraded are the databases that a release has left behind: how one is made from its dump.
var upgraded = []struct {
	scheme string
	url    func(t *testing.T) string
	dump   func(t *testing.T, d *dburl.Database, url string) string
}{
	{dburl.Postgres, func(t *testing.T) string { return postgrestest.EmptyDSN(t) }, dumpPostgres},
	{dburl.SQLite, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "a.db") }, dumpSQLite},
}

// TestUpgrade: in a database that an earlier release has left, all goes on where it was, although
// workers, two of Migrate and an enqueuer begin at once.
func TestUpgrade(t *testing.T) {
	for _, b := range upgraded {
		if *updateDumps {
			writeDump(t, b.scheme, b.url(t), b.dump)
			continue
		}
		dumps, err := filepath.Glob("testdata/*." + b.scheme + ".sql")
		if err != nil || len(dumps) == 0 {
			t.Fatalf("no dumps of %s: %v", b.scheme, err)
		}
		for _, file := range dumps {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
				d, err := dburl.Open(b.url(t), dburl.Options{Retention: queue.Retention{Completed: century, Dead: century}})
				check(t, err)
				defer d.Close()
				restore(t, d, file)
				upgrade(t, d)
			})
		}
	}
}

// runs is what the jobs of life come to: how often each payload runs after the upgrade.
var runs = map[string]int{
	"plain": 1, "delayed": 1, "failed once": 1, "of a worker that died": 1, "first of its group": 1, "second of its group": 1,
	"held by its key": 1, "limited": 1, "redriven": 1, "tick": 1, "of today": 1,
}

// upgrade migrates d beside what uses it, and compares what comes of its jobs.
func upgrade(t *testing.T, d *dburl.Database) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var together sync.WaitGroup
	for range 2 {
		together.Go(func() {
			if err := d.Migrate(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()

	editor, _ := driver.As[driver.Editor](d.Queue)
	if n, err := editor.Redrive(ctx, nil, queue.Selection{Queue: queue.DefaultQueue, Kind: greeting.Name, Status: queue.StatusDead}); n != 1 || err != nil {
		t.Fatalf("redrove %d jobs, %v; want 1", n, err)
	}
	key := greeting.New("not written")
	key.Key = "key"
	if err := d.Queue.Enqueue(ctx, nil, key, greeting.New("of today")); err != nil || !key.Duplicate {
		t.Fatalf("the key is free (%v), %v", key, err)
	}
	schedules, _ := driver.As[driver.Scheduler](d.Queue)
	if fired, _, err := schedules.FireSchedules(ctx); fired != 1 || err != nil {
		t.Fatalf("fired %d ticks, %v; want 1", fired, err)
	}

	got, order := map[string]int{}, []string{}
	var mu sync.Mutex
	mux := queue.NewMux()
	greeting.Handle(mux, func(_ context.Context, job *queue.Job, text string) error {
		mu.Lock()
		defer mu.Unlock()
		got[text]++
		if job.Ordered {
			order = append(order, text)
		}
		if len(got) >= len(runs) {
			time.AfterFunc(100*time.Millisecond, stop) // for jobs that should not run
		}
		return nil
	})
	w := engine.Worker{Backend: d.Queue, Handler: mux, Queues: []string{queue.DefaultQueue, "limited", "paused"}, Logger: slog.New(slog.DiscardHandler)}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, runs) {
		t.Errorf("ran %v\nwant %v", got, runs)
	}
	if want := []string{"first of its group", "second of its group"}; !slices.Equal(order, want) {
		t.Errorf("ordered jobs ran as %q, want %q", order, want)
	}
	compareKept(t, d)
}

// compareKept looks at what no worker touches.
func compareKept(t *testing.T, d *dburl.Database) {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
	done, _, err := inspector.Jobs(t.Context(), queue.Filter{Key: "done", Status: queue.StatusCompleted})
	if err != nil || len(done) != 1 {
		t.Fatalf("jobs that were done: %v, %v; want 1", done, err)
	}
	results, _ := driver.As[driver.ResultKeeper](d.Queue)
	r, _, err := results.Result(t.Context(), done[0].ID)
	if err != nil || string(r.Output) != `"an output"` {
		t.Errorf("its output is %s, %v", r.Output, err)
	}
	counts, err := inspector.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left := map[queue.Status]int64{}
	for _, c := range counts {
		left[c.Status] += int64(c.Jobs)
	}
	if want := map[queue.Status]int64{queue.StatusCompleted: int64(len(runs)) + 1, queue.StatusPending: 2, queue.StatusCancelled: 1}; !maps.Equal(left, want) {
		t.Errorf("jobs by status: %v, want %v", left, want)
	}
	rules, _ := driver.As[driver.Ruler](d.Queue)
	kept, err := rules.Rules(t.Context())
	if err != nil || len(kept) != len(lifeRules) {
		t.Errorf("rules: %+v, %v; want %d", kept, err, len(lifeRules))
	}
	auditor, _ := driver.As[driver.Auditor](d.Queue)
	if log, _, err := auditor.AuditLog(t.Context(), queue.AuditFilter{}); err != nil || len(log) != 1 || log[0].Actor != "ada" {
		t.Errorf("audit log: %+v, %v; want one entry of ada", log, err)
	}
}

var lifeRules = []queue.Rule{{Queue: "limited", Running: 1, Rate: queue.Rate{Jobs: 100, Per: time.Minute}}, {Queue: "paused", Paused: true}}

// life leaves a queue as a program does that has used it for a day. Every lease is over.
func life(t *testing.T, d *dburl.Database) {
	ctx := t.Context()
	job := func(text string, with func(*queue.Job)) *queue.Job {
		j := greeting.New(text)
		if with != nil {
			with(j)
		}
		return j
	}
	rules, _ := driver.As[driver.Ruler](d.Queue)
	schedules, _ := driver.As[driver.Scheduler](d.Queue)
	auditor, _ := driver.As[driver.Auditor](d.Queue)
	cancels, _ := driver.As[driver.Canceller](d.Queue)
	check(t, rules.SetRules(ctx, nil, lifeRules...))
	check(t, schedules.SetSchedules(ctx, nil, queue.Schedule{Name: "yearly", Spec: inAMinute(), Zone: "Europe/Berlin", Missed: queue.MissedLast, Job: job("tick", nil)}))
	check(t, auditor.Audit(ctx, nil, queue.AuditEntry{Actor: "ada", Action: "jobs.redrive", Count: 3}))

	settle := func(action queue.OutcomeAction, o queue.Outcome, jobs ...*queue.Job) {
		check(t, d.Queue.Enqueue(ctx, nil, jobs...))
		claimed, err := d.Queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "of then"})
		check(t, err)
		if len(claimed) != 1 {
			t.Fatalf("claimed %d jobs", len(claimed))
		}
		o.Job, o.Action = claimed[0], action
		if lost, err := d.Queue.Settle(ctx, nil, o); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
	settle(queue.Done, queue.Outcome{Output: json.RawMessage(`"an output"`)}, job("done", func(j *queue.Job) { j.Key = "done" }))
	settle(queue.Dead, queue.Outcome{Err: errors.New("it broke")}, job("redriven", nil))
	settle(queue.Retry, queue.Outcome{Err: errors.New("a failure"), Delay: time.Second}, job("failed once", nil))
	check(t, d.Queue.Enqueue(ctx, nil, job("of a worker that died", nil)))
	_, err := d.Queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Second, Worker: "of then"})
	check(t, err)
	check(t, d.Queue.Enqueue(ctx, nil,
		job("plain", nil),
		job("delayed", func(j *queue.Job) { j.Delay = time.Second }),
		job("of the next century", func(j *queue.Job) { j.ScheduledAt = time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC) }),
		job("first of its group", func(j *queue.Job) { j.Group, j.Ordered = "a", true }),
		job("second of its group", func(j *queue.Job) { j.Group, j.Ordered = "a", true }),
		job("held by its key", func(j *queue.Job) { j.Key = "key" }),
		job("limited", func(j *queue.Job) { j.Queue = "limited" }),
		job("paused", func(j *queue.Job) { j.Queue = "paused" }),
		job("cancelled", func(j *queue.Job) { j.Key = "unwanted" })))
	_, err = cancels.Cancel(ctx, nil, queue.Selection{Queue: queue.DefaultQueue, Key: "unwanted"})
	check(t, err)
}

// inAMinute is the next minute in Berlin, once a year.
func inAMinute() string {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return time.Now().In(berlin).Add(time.Minute).Format("4 15 2 1 *")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeDump writes testdata/next.SCHEME.sql.
func writeDump(t *testing.T, scheme, url string, dump func(*testing.T, *dburl.Database, string) string) {
	t.Helper()
	d := open(t, url)
	check(t, d.Migrate(t.Context()))
	life(t, d)
	check(t, os.WriteFile("testdata/next."+scheme+".sql", []byte(dump(t, d, url)), 0o600))
}

// dumpPostgres is pg_dump's dump as INSERTs, without psql's commands.
func dumpPostgres(t *testing.T, d *dburl.Database, url string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--no-privileges", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "--") && line != "\n" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// dumpSQLite has the statements of sqlite_schema and an INSERT a row.
func dumpSQLite(t *testing.T, d *dburl.Database, _ string) string {
	t.Helper()
	var dump strings.Builder
	objects := strs(t, d.DB, `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type <> 'table', type <> 'index', rowid`)
	tables := strs(t, d.DB, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid`)
	for _, statement := range objects {
		dump.WriteString(statement + ";\n")
	}
	if version := strs(t, d.DB, `SELECT CAST(user_version AS TEXT) FROM pragma_user_version`); version[0] != "0" {
		fmt.Fprintf(&dump, "PRAGMA user_version = %s;\n", version[0])
	}
	for _, table := range tables {
		columns := strs(t, d.DB, `SELECT group_concat('quote("' || name || '")', ' || '', '' || ') FROM pragma_table_info('`+table+`')`)
		for _, row := range strs(t, d.DB, `SELECT `+columns[0]+` FROM "`+table+`"`) {
			fmt.Fprintf(&dump, "INSERT INTO \"%s\" VALUES (%s);\n", table, row)
		}
	}
	return dump.String()
}

func strs(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		check(t, rows.Scan(&s))
		all = append(all, s)
	}
	check(t, rows.Err())
	return all
}

// restore runs a dump.
func restore(t *testing.T, d *dburl.Database, file string) {
	t.Helper()
	dump, err := os.ReadFile(file)
	check(t, err)
	if _, err := d.DB.ExecContext(t.Context(), string(dump)); err != nil {
		t.Fatal(err)
	}
	if d.Scheme == dburl.Postgres { // pg_dump empties the search_path of its session
		d.DB.SetMaxIdleConns(0)
		d.DB.SetMaxIdleConns(2)
	}
}
