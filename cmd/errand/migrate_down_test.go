package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// runOn runs a command on a database, and returns its exit code and all that it prints.
func runOn(t *testing.T, database string, args ...string) (code int, text string) {
	t.Helper()
	var out bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &out, getenv: func(string) string { return "" }}
	code = run(t.Context(), a, append(args, "--url", database))
	return code, out.String()
}

// TestDownBesideWorkers: migrate down does nothing while a worker is alive, whatever may be lost.
// One that has stopped or vanished does not keep it.
func TestDownBesideWorkers(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			database := b.url(t, t.TempDir())
			d := openWithJobs(t, database, 1)
			fleet, _ := queue.As[queue.Fleet](d.Queue)
			report := queue.WorkerReport{WorkerInfo: queue.WorkerInfo{Name: "app-1", Queues: []string{"default"}, Lease: time.Minute, Poll: time.Second}}
			if err := fleet.ReportWorkers(t.Context(), report); err != nil {
				t.Fatal(err)
			}
			code, text := runOn(t, database, "migrate", "down", "--lose-data", "errand")
			if code != exitRefused || !strings.Contains(text, "workers are alive: app-1 (seen ") {
				t.Errorf("beside a worker: exit code %d: %s", code, text)
			}
			if status := jobStatus(t, d, 1); status != queue.StatusPending {
				t.Errorf("job 1 is %s", status)
			}
			age(t, d, queue.VanishedAfter+time.Second)
			if code, text := runOn(t, database, "migrate", "down", "--lose-data", "errand"); code != exitDone {
				t.Errorf("beside a vanished worker: exit code %d: %s", code, text)
			}
		})
	}
}

// age makes the workers' last reports older.
func age(t *testing.T, d *dburl.Database, by time.Duration) {
	t.Helper()
	text := `UPDATE errand.workers SET seen_at = seen_at - $1 * interval '1 microsecond'`
	if d.Scheme == dburl.SQLite {
		text = `UPDATE errand_workers SET seen_at = seen_at - $1`
	}
	if _, err := d.DB.ExecContext(t.Context(), text, by.Microseconds()); err != nil {
		t.Fatal(err)
	}
}

// TestDownOthers: views on errand's tables keep them, and the other objects of the schema stay. A
// newer errand's tables are left alone, and an older one's are removed.
func TestDownOthers(t *testing.T) {
	database := backends[1].url(t, "")
	d := openWithJobs(t, database, 0)
	execute := func(text string) {
		t.Helper()
		if _, err := d.DB.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	execute(`CREATE VIEW public.late AS SELECT id FROM errand.jobs`)
	if code, text := runOn(t, database, "migrate", "down"); code != exitRefused || !strings.Contains(text, "view late depends on table errand.jobs") {
		t.Errorf("below a view: exit code %d: %s", code, text)
	}
	execute(`DROP VIEW public.late`)
	execute(`CREATE TABLE errand.mine AS SELECT 1 AS id`)
	execute(`INSERT INTO errand.migrations (version, name) VALUES (1000, 'later')`)
	if code, text := runOn(t, database, "migrate", "down", "--lose-data", "errand"); code != exitRefused || !strings.Contains(text, "a newer errand") {
		t.Errorf("after a newer errand: exit code %d: %s", code, text)
	}
	execute(`DELETE FROM errand.migrations WHERE version = 1000`)
	if code, text := runOn(t, database, "migrate", "down"); code != exitDone {
		t.Errorf("beside a table: exit code %d: %s", code, text)
	}
	execute(`INSERT INTO errand.mine VALUES (2)`)

	list, err := known(dburl.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	execute(list[0].sql)
	if code, text := runOn(t, database, "migrate", "down"); code != exitDone {
		t.Errorf("after the first step: exit code %d: %s", code, text)
	}
}

// TestDownWaits: migrate down gives up, and changes nothing, if a transaction uses the tables.
func TestDownWaits(t *testing.T) {
	t.Parallel()
	database := backends[1].url(t, "")
	d := openWithJobs(t, database, 0)
	tx, err := d.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := d.Queue.Enqueue(t.Context(), tx, &queue.Job{Kind: "open"}); err != nil {
		t.Fatal(err)
	}
	if code, text := runOn(t, database, "migrate", "down"); code != exitRefused || !strings.Contains(text, "waited 5s for a lock on errand.jobs, which session ") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if code, text := runOn(t, database, "migrate", "down"); code != exitRefused || !strings.Contains(text, "1 rows of jobs") {
		t.Errorf("after its commit: exit code %d: %s", code, text)
	}
}

// TestDownBesideMigration: migrate down says whose lock it waits for, which is no row's.
func TestDownBesideMigration(t *testing.T) {
	t.Parallel()
	database := backends[1].url(t, "")
	d := openWithJobs(t, database, 0)
	text, err := dropSQL(d.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	lock, _, _ := strings.Cut(text, ";")
	tx, err := d.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if code, text := runOn(t, database, "migrate", "down"); code != exitRefused || !strings.Contains(text, "waited 5s for an advisory lock, which session ") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestDownAtOnce: of two migrate down at once, the second finds nothing to do.
func TestDownAtOnce(t *testing.T) {
	t.Parallel()
	database := backends[1].url(t, "")
	d := openWithJobs(t, database, 0)
	tx, err := d.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := d.Queue.Enqueue(t.Context(), tx, &queue.Job{Kind: "open"}); err != nil {
		t.Fatal(err)
	}
	texts := make(chan string, 2)
	for range cap(texts) {
		go func() {
			code, text := runOn(t, database, "migrate", "down", "--timeout", "1h")
			texts <- fmt.Sprintf("exit code %d: %s", code, text[strings.Index(text, "\n")+1:]) // without the database
		}()
	}
	const waiting = `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := 0; n < cap(texts); time.Sleep(10 * time.Millisecond) {
		if err := d.DB.QueryRowContext(ctx, waiting).Scan(&n); err != nil {
			t.Fatalf("%d of %d migrate down wait for a lock: %v", n, cap(texts), err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	got := []string{<-texts, <-texts}
	slices.Sort(got)
	if want := []string{"exit code 0: all tables are removed\n", "exit code 0: errand: nothing to do\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDownDedup: keys of middleware.SQLDedup whose windows have not ended count as rows that are
// lost.
func TestDownDedup(t *testing.T) {
	t.Parallel()
	database := backends[1].url(t, "")
	d := openWithJobs(t, database, 0)
	const insert = `INSERT INTO errand.dedup VALUES ('past', '2001-01-01'), ('ahead', 'infinity'), ('later', '2999-01-01')`
	if _, err := d.DB.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	if code, text := runOn(t, database, "migrate", "down"); code != exitRefused || !strings.Contains(text, "2 rows of dedup would be lost") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if _, err := d.DB.ExecContext(t.Context(), `DELETE FROM errand.dedup WHERE key <> 'past'`); err != nil {
		t.Fatal(err)
	}
	if code, text := runOn(t, database, "migrate", "down"); code != exitDone {
		t.Errorf("without live keys: exit code %d: %s", code, text)
	}
}
