//go:build unix

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const token = "a secret of the tests"

// TestMain lets more tests run at once than there are processors: nearly all of their time they
// wait.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}

// TestRemote: the program's audit finds nothing wrong.
func TestRemote(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "remote.db") },
		"postgres": func(t *testing.T) string { return postgrestest.DSN(t) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" && !extent.Whole() {
				t.Skip("ERRAND_TESTS=whole runs it: repeats on Postgres what sqlite proves")
			}
			if err := run(t.Context(), open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFrozen: a worker that is frozen until its lease has expired is told that its job is held
// elsewhere, and its outcome is not recorded.
func TestFrozen(t *testing.T) {
	inEachLanguage(t, testFrozen)
}

// TestInterrupted: a worker that gets the SIGINT of Ctrl-C settles what it runs, and ends in order.
func TestInterrupted(t *testing.T) {
	inEachLanguage(t, testInterrupted)
}

// TestRefused: a worker whose outcome the gateway refuses logs that, and goes on working. The job
// runs again.
func TestRefused(t *testing.T) {
	inEachLanguage(t, testRefused)
}

// inEachLanguage runs a test with the command of each worker. The worker is killed after a minute.
func inEachLanguage(t *testing.T, test func(*testing.T, *exec.Cmd)) {
	t.Parallel()
	for language, command := range map[string][]string{
		"python": {"python3", "worker.py"},
		"node":   {"node", "worker.mjs"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			test(t, exec.CommandContext(ctx, command[0], command[1:]...))
		})
	}
}

// openQueue opens a queue with the job, and returns it and the URL of its gateway.
func openQueue(t *testing.T, job *queue.Job) (queue.Queue, string) {
	t.Helper()
	d, err := dburl.Open("sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	gateway, err := startGateway(d.Queue, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gateway.end)
	if err := d.Queue.Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}
	return d.Queue, gateway.url
}

func testInterrupted(t *testing.T, cmd *exec.Cmd) {
	job := CountWords.New(Text{Text: "one two", MS: 4000})
	q, url := openQueue(t, job)
	lines := start(t, cmd, url)
	var last queue.Record
	awaitJob(t, q, job.ID, func(r queue.Record) bool { // a claim's answer may still be under way
		isExtended := r.Attempt == last.Attempt && r.LeaseEnds.After(last.LeaseEnds)
		last = r
		return isExtended
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the worker has ended
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	inspector, _ := driver.As[driver.Inspector](q)
	if r, _, err := inspector.Job(t.Context(), job.ID); err != nil || r.Status == queue.StatusRunning {
		t.Errorf("the job is %s, error %v; want it settled", r.Status, err)
	}
}

func testRefused(t *testing.T, cmd *exec.Cmd) {
	job := CountWords.New(Text{Text: "one two", MS: 1})
	q, target := openQueue(t, job)
	behind, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Bool
	gateway := httputil.NewSingleHostReverseProxy(behind)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/settle" && refused.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": {"code": "invalid", "message": "refused by the test"}}`)
			return
		}
		gateway.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.CloseClientConnections) // the worker may still wait for jobs
	lines := start(t, cmd, proxy.URL)
	for lines.Scan() && !strings.Contains(lines.Text(), "refused by the test") {
	}
	if !strings.Contains(lines.Text(), "refused by the test") {
		t.Errorf("the last line of the worker: %q, want the refusal", lines.Text())
	}
	awaitJob(t, q, job.ID, func(r queue.Record) bool { return r.Status == queue.StatusCompleted && r.Attempt == 2 })
}

func testFrozen(t *testing.T, cmd *exec.Cmd) {
	job := CountWords.New(Text{Text: "one two", MS: 60_000})
	job.MaxAttempts = 20 // each of the frozen worker's handlers that wait may get it once
	q, url := openQueue(t, job)
	lines := start(t, cmd, url)
	awaitJob(t, q, job.ID, func(r queue.Record) bool { return r.Status == queue.StatusRunning })
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	claimAndSettle(t, q)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "void here") {
			break
		}
	}
	if !strings.Contains(lines.Text(), "void here") {
		t.Errorf("the last line of the worker: %q, want that its job is void", lines.Text())
	}
	keeper, _ := driver.As[driver.ResultKeeper](q)
	r, ok, err := keeper.Result(t.Context(), job.ID)
	if !ok || err != nil || string(r.Output) != `{"by":"test"}` {
		t.Errorf("output: %s, found %v, error %v; want that of the second worker", r.Output, ok, err)
	}
}

// start starts a worker, and returns what it prints.
func start(t *testing.T, cmd *exec.Cmd, url string) *bufio.Scanner {
	t.Helper()
	cmd.Env = append(os.Environ(), "GATEWAYS="+url, "TOKEN="+token)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return bufio.NewScanner(out)
}

// awaitJob waits until a job is as isRight wants it, a minute at most.
func awaitJob(t *testing.T, q queue.Queue, id int64, isRight func(queue.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	inspector, _ := driver.As[driver.Inspector](q)
	for ; ; time.Sleep(10 * time.Millisecond) {
		r, _, err := inspector.Job(ctx, id)
		if err != nil {
			t.Fatalf("job %d, now %s: %v", id, r.Status, err)
		}
		if isRight(r) {
			return
		}
	}
}

// claimAndSettle completes the job as a different worker, once the frozen worker's lease has
// expired.
func claimAndSettle(t *testing.T, q queue.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request := queue.ClaimRequest{Queues: []string{CountWords.Queue}, Worker: "test", Limit: 1, Lease: time.Minute}
	for {
		jobs, err := q.Claim(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: jobs[0], Action: queue.Done, Output: []byte(`{"by":"test"}`)})
		if len(lost) > 0 || err != nil {
			t.Fatal(lost, err)
		}
		return
	}
}
