package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestBench: bench measures what it says, and leaves the database as it was.
func TestBench(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			skipPgBouncer(t, b.name)
			t.Parallel()
			dir := t.TempDir()
			database := b.url(t, dir)
			d := openWithJobs(t, database, 3)
			before := rooms(t, d, dir)
			var out, problems bytes.Buffer
			a := &app{out: &out, err: &problems, getenv: func(string) string { return database }}
			if code := run(t.Context(), a, []string{"bench", "--jobs", "2000", "--connections", "2", "-o", "json", "--timeout", "2s"}); code != exitDone {
				t.Fatalf("exit code %d: %s", code, &problems)
			}
			var figures []figure
			if err := json.Unmarshal(out.Bytes(), &figures); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range figures {
				names = append(names, f.What)
				if f.Value <= 0 || f.Unit == "" || f.About == "" {
					t.Errorf("%+v", f)
				}
			}
			if got, want := strings.Join(names, "; "), "round trip; from Enqueue to handler, p50; from Enqueue to handler, p99; enqueue one by one; one call, p50; "+
				"one call, p99; enqueue in batches; drain"; got != want {
				t.Errorf("measured %s, want %s", got, want)
			}
			if !strings.Contains(problems.String(), "which is removed afterwards: ") {
				t.Errorf("it does not say where it measures: %s", &problems)
			}
			if after := rooms(t, d, dir); after != before {
				t.Errorf("there is %s, and before there was %s", after, before)
			}
			inspector, _ := queue.As[queue.Inspector](d.Queue)
			if jobs, _, err := inspector.Jobs(t.Context(), queue.Filter{}); err != nil || len(jobs) != 3 || jobs[0].Kind != "shop.order" {
				t.Errorf("the queue has %d jobs, %v, want the same 3", len(jobs), err)
			}
		})
	}
}

// TestBenchLeftovers: a bench names what a killed one has left, and the command that it gives
// removes that. It does not name what has another name.
func TestBenchLeftovers(t *testing.T) {
	t.Parallel()
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := openWithJobs(t, b.url(t, dir), 0)
			before := rooms(t, d, dir)
			if _, err := makeRoom(t.Context(), d, benchOptions{connections: 1}); err != nil { // which nobody removes
				t.Fatal(err)
			}
			const others = `CREATE SCHEMA errand_bench_abcdefghij; CREATE SCHEMA errandxbench_a; CREATE SCHEMA errand_bench`
			if d.Scheme == dburl.Postgres {
				if _, err := d.DB.ExecContext(t.Context(), others); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			if err := (&app{err: &said}).tellLeftovers(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(said.String(), "\n"); got != 1 {
				t.Errorf("it names %d, want 1: %s", got, &said)
			}
			_, remedy, _ := strings.Cut(strings.TrimSpace(said.String()), "remove it: ")
			if d.Scheme == dburl.SQLite {
				if text, err := exec.CommandContext(t.Context(), "sh", "-c", remedy).CombinedOutput(); err != nil {
					t.Error(err, string(text))
				}
			} else if _, err := d.DB.ExecContext(t.Context(), remedy+"; DROP SCHEMA errandxbench_a; DROP SCHEMA errand_bench"); err != nil {
				t.Error(err)
			}
			if after := rooms(t, d, dir); after != before {
				t.Errorf("there is %s, and before there was %s", after, before)
			}
		})
	}
}

// rooms returns the schemas of the database, or the files beside it.
func rooms(t *testing.T, d *dburl.Database, dir string) (list string) {
	t.Helper()
	if d.Scheme == dburl.SQLite {
		files, err := filepath.Glob(filepath.Join(dir, "*bench*"))
		hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(files, hidden...), " ")
	}
	if err := d.DB.QueryRowContext(t.Context(), `SELECT string_agg(nspname, ' ' ORDER BY oid) FROM pg_namespace`).Scan(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestBenchInterrupted: an interrupt leaves nothing behind either, whatever is measured just then.
// With ERRAND_TESTS=whole it comes at more moments.
func TestBenchInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	for _, b := range backends[:2] { // a PgBouncer ends other clients' connections, too, when one ends within a statement
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			database := b.url(t, dir)
			d := openWithJobs(t, database, 0)
			before := rooms(t, d, dir)
			moments := []string{"migrations", "single jobs: "}
			if extent.Whole() {
				moments = append(moments, "measuring in", "batches: ")
			}
			for _, during := range moments {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, "errand", "bench", "--jobs", "1000000", "--url", database)
				problems, err := cmd.StderrPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				said := bufio.NewScanner(problems)
				if during == "migrations" { // of which it says nothing
					for rooms(t, d, dir) == before && ctx.Err() == nil {
						time.Sleep(5 * time.Millisecond)
					}
				} else {
					for said.Scan() && !strings.Contains(said.Text(), during) {
					}
				}
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Error(err)
				}
				var text string
				for said.Scan() { // to the end, so that Wait may close the pipe
					text += said.Text() + "\n"
				}
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
					t.Errorf("during %s: exit code %d: %s", during, code, text)
				}
				if after := rooms(t, d, dir); after != before {
					t.Errorf("during %s: there is %s, and before there was %s: %s", during, after, before, text)
				}
			}
		})
	}
}
