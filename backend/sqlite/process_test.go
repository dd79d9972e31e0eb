package sqlite_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// process is a child process that uses the file of a test: this binary, run again (see TestMain).
// It lives until its standard input is closed.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr strings.Builder
	ended  sync.WaitGroup // reading what it says

	mu    sync.Mutex
	lines []string // what it has said
	said  chan string
}

// start starts a child in that role.
func start(t testing.TB, role, driver, path string, args ...string) *process {
	t.Helper()
	p := &process{said: make(chan string, 100_000)}
	p.cmd = exec.Command(os.Args[0], append([]string{role, driver, path}, args...)...)
	p.cmd.Env = append(os.Environ(), childVariable+"=1")
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // where the test ended too early
	p.ended.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
			p.said <- lines.Text()
		}
	})
	return p
}

// stop lets the child end, and checks that it has met no error.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.stdin.Close()
	p.ended.Wait()
	if err := p.cmd.Wait(); err != nil || p.stderr.Len() > 0 {
		t.Errorf("a process ended with %v and said: %s", err, p.stderr.String())
	}
}

// kill kills the child, and waits until it is dead.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.ended.Wait()
	_ = p.cmd.Wait() // says that it was killed
	if p.stderr.Len() > 0 {
		t.Errorf("a process that was killed had said: %s", p.stderr.String())
	}
}

// all is what the child has said so far.
func (p *process) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// shop is a file with the tables of the application that the children play.
func shop(t *testing.T, driver string) (path string, q *sqlite.Backend, count func(query string) int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "shop.db")
	db := open(t, driver, sqlite.DSN(path))
	migrate(t, db, sqlite.Options{})
	execute(t, db, `CREATE TABLE orders (id INTEGER PRIMARY KEY, job INTEGER NOT NULL)`)
	execute(t, db, `CREATE TABLE effects (job INTEGER NOT NULL)`)
	return path, backend(t, db, sqlite.Options{}), func(query string) int {
		t.Helper()
		return value[int](t, db, query)
	}
}

// awaitAll waits until every job has ended.
func awaitAll(t *testing.T, q *sqlite.Backend, jobs int) {
	t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for tick := time.Tick(20 * time.Millisecond); ; <-tick {
		counts, err := q.Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for _, c := range counts {
			if c.Status == queue.StatusCompleted || c.Status == queue.StatusDead {
				ended += int(c.Jobs)
			}
		}
		if ended == jobs {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after two minutes there are %+v, want %d jobs that have ended", counts, jobs)
		}
	}
}

// TestEightProcesses lets eight processes enqueue and work on one file at full speed, in
// transactions of their own and without: none of their calls, and none of their transactions, meets
// SQLITE_BUSY.
func TestEightProcesses(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		const processes, each = 8, 100
		const lease = "5m" // none expires, however slow the machine is
		path, q, count := shop(t, driver)
		var children []*process
		for range processes {
			children = append(children, start(t, "crew", driver, path, fmt.Sprint(each), lease))
		}
		awaitAll(t, q, processes*each)
		for _, p := range children {
			p.stop(t)
		}
		for query, want := range map[string]int{
			`SELECT count(*) FROM errand_jobs WHERE status = 'completed' AND attempts = 1`:              processes * each,
			`SELECT count(*) FROM effects JOIN errand_jobs ON errand_jobs.id = job`:                     processes * each,
			`SELECT count(DISTINCT job) FROM effects`:                                                   processes * each,
			`SELECT count(*) FROM orders JOIN errand_jobs ON errand_jobs.id = job`:                      processes * each / 2,
			`SELECT count(DISTINCT fence || ' ' || locked_by) - count(DISTINCT fence) FROM errand_jobs`: 0,
			`SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'`:                  1,
		} {
			if got := count(query); got != want {
				t.Errorf("%s: got %d, want %d", query, got, want)
			}
		}
	})
}

// TestKill kills one of four processes after another while they work: the file stays whole, what
// had been committed is there, and every job ends.
func TestKill(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		const each, lease = 200, "2s"
		path, q, count := shop(t, driver)
		var children []*process
		for range 4 {
			children = append(children, start(t, "crew", driver, path, fmt.Sprint(each), lease))
		}
		acked := make(map[string]bool) // ids of jobs whose commit a process has seen
		for i, p := range children[:3] {
			for range 25 * (i + 1) {
				<-p.said
			}
			p.kill(t)
			if got := count(`SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'`); got != 1 {
				t.Errorf("after %d processes were killed PRAGMA integrity_check is not ok", i+1)
			}
		}
		last := start(t, "crew", driver, path, "0", lease) // takes over, as a process that was restarted would
		for len(children[3].all()) < each {
			<-children[3].said
		}
		awaitAll(t, q, count(`SELECT count(*) FROM errand_jobs`))
		children[3].stop(t)
		last.stop(t)
		for _, p := range children {
			for _, id := range p.all() {
				acked[id] = true
			}
		}
		for id := range acked {
			if got := count(`SELECT count(*) FROM errand_jobs WHERE status = 'completed' AND id = ` + id); got != 1 {
				t.Errorf("job %s had been committed when its process was killed: %d of it have completed, want 1", id, got)
			}
		}
		if got := count(`SELECT count(*) FROM orders WHERE job NOT IN (SELECT id FROM errand_jobs)`); got != 0 {
			t.Errorf("%d orders have no job, want 0", got)
		}
		if got := count(`SELECT count(*) FROM errand_jobs WHERE kind = 'order' AND id NOT IN (SELECT job FROM orders)`); got != 0 {
			t.Errorf("%d jobs have no order, want 0", got)
		}
		if got := count(`SELECT count(*) FROM errand_jobs WHERE id NOT IN (SELECT job FROM effects)`); got != 0 {
			t.Errorf("%d jobs have had no effect, want 0", got)
		}
	})
}

// TestWakeAcrossProcesses: a worker that sleeps in another process is woken by each commit, and
// only then. How soon is the business of TestWakeWithinProcess.
func TestWakeAcrossProcesses(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path, q, _ := shop(t, driver)
		sleeper := start(t, "sleeper", driver, path)
		defer sleeper.stop(t)
		for range 15 {
			if said := <-sleeper.said; said != "asleep" {
				t.Fatalf("the sleeper said %q, want that it is asleep", said)
			}
			select {
			case said := <-sleeper.said:
				t.Fatalf("the sleeper said %q before the commit", said)
			case <-time.After(10 * time.Millisecond):
			}
			enqueue(t, q, &queue.Job{Kind: "test"})
			if said := <-sleeper.said; said != "woken" {
				t.Fatalf("the sleeper said %q, want that it is woken", said)
			}
		}
	})
}

// TestStarvedProcess: a process without a free connection does not stop the others from writing,
// and is told after LockTimeout what it lacks.
func TestStarvedProcess(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		t.Parallel()
		path, q, _ := shop(t, driver)
		starved := start(t, "starved", driver, path)
		defer starved.stop(t)
		if said := <-starved.said; said != "starved" {
			t.Fatalf("the process said %q, want that it is starved", said)
		}
		written := 0
		for said := 0; said < 2; {
			select {
			case line := <-starved.said:
				if said++; !strings.Contains(line, "no connection of the pool has been free for 1s") {
					t.Errorf("Enqueue without a free connection: %s, want that none has been free for 1s", line)
				}
			default:
				enqueue(t, q, jobs(1)...)
				written++
			}
		}
		if written < 20 {
			t.Errorf("%d jobs were written meanwhile, want 20 and more", written)
		}
	})
}

// TestEndlessTurn: while a process does not let go of the write lock, each writer of another gives
// up after LockTimeout, however many they are.
func TestEndlessTurn(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path, _, _ := shop(t, driver)
		const timeout = 300 * time.Millisecond
		q := backend(t, open(t, driver, sqlite.DSN(path)), sqlite.Options{LockTimeout: timeout})
		holder := start(t, "holder", driver, path)
		defer holder.stop(t)
		if said := <-holder.said; said != "held" {
			t.Fatalf("the process said %q, want that it holds the lock", said)
		}
		if _, err := q.Counts(t.Context()); err != nil { // prepares statements
			t.Fatal(err)
		}
		begun := time.Now()
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				err := q.Enqueue(t.Context(), nil, jobs(1)...)
				if err == nil || !strings.Contains(err.Error(), "write lock for 300ms") {
					t.Errorf("Enqueue beside it: %v, want that another has had the lock for 300ms", err)
				}
			})
		}
		writers.Wait()
		if took := time.Since(begun); took < timeout || took > 10*timeout {
			t.Errorf("four writers gave up after %v, want %v", took, timeout)
		}
	})
}
