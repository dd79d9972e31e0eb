package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// bulkBackends are where imports are tested.
func bulkBackends() map[string]func(t *testing.T) string {
	list := map[string]func(t *testing.T) string{"redis": func(t *testing.T) string { return redisURL(t) }}
	for _, b := range clitest.Backends[:2] {
		list[b.Name] = func(t *testing.T) string { return b.URL(t, t.TempDir()) }
	}
	return list
}

// writeJobs writes a file of n jobs, and returns its name.
func writeJobs(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"queue\":\"bulk\",\"kind\":\"row\",\"payload\":%d}\n", i)
	}
	name := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func openMigrated(t *testing.T, url string) *dburl.Database {
	t.Helper()
	d, err := dburl.Open(url, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// rows returns how many jobs of the queue bulk there are for each payload.
func rows(t *testing.T, d *dburl.Database) map[string]int {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
	found := make(map[string]int)
	f := queue.Filter{Queue: "bulk", Limit: 1000}
	for {
		page, next, err := inspector.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			found[string(r.Payload)]++
		}
		if f.Before = next; next == 0 {
			return found
		}
	}
}

// arrived returns how many jobs there are in all.
func arrived(t *testing.T, d *dburl.Database) (n int64) {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
	counts, err := inspector.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		n += c.Jobs
	}
	return n
}

// TestBulkKilled: an import that is killed at random points and repeated leaves no job out, and
// enqueues none twice. Once it has ended, the same file is a new import.
func TestBulkKilled(t *testing.T) {
	t.Parallel()
	const jobs, kills = 3000, 4
	for name, url := range bulkBackends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database, file := url(t), writeJobs(t, jobs)
			d := openMigrated(t, database)
			seed := rand.New(rand.NewPCG(7, uint64(len(name))))
			run := func(mayKill bool) (text string, isKilled bool) {
				var said bytes.Buffer
				cmd := exec.CommandContext(t.Context(), "errand", "--url", database, "enqueue", "--file", file, "--batch", "20", "-o", "json")
				cmd.Stdout = &said
				before := arrived(t, d)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				for mayKill && arrived(t, d) == before {
					select {
					case err := <-ended:
						return said.String(), err != nil
					default:
						time.Sleep(time.Millisecond)
					}
				}
				if mayKill {
					time.Sleep(time.Duration(seed.Int64N(int64(25 * time.Millisecond))))
					_ = cmd.Process.Kill()
				}
				err := <-ended
				return said.String(), err != nil
			}
			killed, text, isKilled := 0, "", true
			for n := 0; isKilled && n <= kills; n++ { // a run that ends before it is killed is the last
				if text, isKilled = run(n < kills); isKilled {
					killed++
					t.Logf("killed after %d jobs", arrived(t, d))
				}
			}
			if killed == 0 {
				t.Error("it was never killed during its work")
			}
			var counts struct{ Lines, Enqueued, Repeated int }
			if err := json.Unmarshal([]byte(text), &counts); err != nil || isKilled || counts.Lines != jobs || counts.Enqueued+counts.Repeated != jobs {
				t.Errorf("the last run: %s, %v", text, err)
			}
			found := rows(t, d)
			for i := range jobs {
				if n := found[fmt.Sprint(i)]; n != 1 {
					t.Fatalf("line %d is there %d times, want once", i+1, n)
				}
			}
			if _, err := os.Stat(file + ".errand-state"); !os.IsNotExist(err) {
				t.Errorf("the state is still there: %v", err)
			}
			if run(false); arrived(t, d) != 2*jobs {
				t.Errorf("a new import of the file: %d jobs in all, want %d", arrived(t, d), 2*jobs)
			}
		})
	}
}

// TestBulkRefused: lines that the database refuses are named, and all others are written.
func TestBulkRefused(t *testing.T) {
	t.Parallel()
	for _, b := range clitest.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			database, file := b.URL(t, t.TempDir()), writeJobs(t, 300)
			d := openMigrated(t, database)
			trigger := []string{`CREATE TRIGGER refuse BEFORE INSERT ON errand_jobs WHEN new.payload IN ('17', '250') BEGIN SELECT raise(ABORT, 'no such row'); END`}
			if b.Name == "postgres" {
				trigger = []string{
					`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no such row'; END $$`,
					`CREATE TRIGGER refuse BEFORE INSERT ON errand.jobs FOR EACH ROW WHEN (new.payload IN ('17', '250')) EXECUTE FUNCTION refuse()`,
				}
			}
			for _, statement := range trigger {
				if _, err := d.DB.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			r := runErrand(t, database, "enqueue", "--file", file)
			if r.code != cli.ExitRefused || r.out != "300 lines: 298 enqueued, 2 refused\n" ||
				!strings.Contains(r.err, "line 18: ") || !strings.Contains(r.err, "line 251: ") || !strings.Contains(r.err, "no such row") {
				t.Errorf("exit code %d, %s%s", r.code, r.out, r.err)
			}
			if n := len(rows(t, d)); n != 298 {
				t.Errorf("%d jobs, want 298", n)
			}
		})
	}
}
