package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestMoveKilled: a queue goes to another database and back, while it is worked off in both, by
// processes that are killed at random points and started again. Each job runs once.
func TestMoveKilled(t *testing.T) {
	t.Parallel()
	const jobs, kills = 1000, 3
	here, there := postgrestest.EmptyDSN(t), "sqlite:"+filepath.ToSlash(filepath.Join(t.TempDir(), "queue.db"))
	m := &moves{T: t, ran: make(map[string]int), seed: rand.New(rand.NewPCG(1, 2))}
	from, to := m.open(here), m.open(there)
	for i := 0; i < jobs; i += 100 {
		if err := from.Queue.Enqueue(t.Context(), nil, clitest.Clicks(i, 100)...); err != nil {
			t.Fatal(err)
		}
	}
	for range kills {
		m.kill(here, there, to)
	}
	m.finish(here, there)
	m.wantLive(to, jobs)

	end := m.work(from, to)
	for range kills {
		m.kill(there, here, from)
	}
	m.finish(there, here)
	m.await("all jobs to have run", func() bool { return m.total() >= jobs })
	end()
	for i := range jobs {
		if n := m.ran[fmt.Sprint(i)]; n != 1 {
			t.Errorf("job %d has run %d times, want once", i, n)
		}
	}
	m.wantLive(from, 0)
	m.wantLive(to, 0)
}

// moves are moves of the queue "clicks" by processes.
type moves struct {
	*testing.T
	seed *rand.Rand

	mu  sync.Mutex
	ran map[string]int // by payload
}

func (m *moves) open(url string) *dburl.Database {
	m.Helper()
	d, err := dburl.Open(url, dburl.Options{})
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { d.Close() })
	if err := d.Migrate(m.Context()); err != nil {
		m.Fatal(err)
	}
	return d
}

func (m *moves) command(from, to string) (cmd *exec.Cmd, said *bytes.Buffer) {
	said = new(bytes.Buffer)
	cmd = exec.CommandContext(m.Context(), "errand", "--url", from, "queues", "move", "clicks", "--to", to)
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// kill starts a move, and kills it after it has moved some jobs, or has ended.
func (m *moves) kill(from, to string, target *dburl.Database) {
	m.Helper()
	before := m.arrived(target)
	cmd, said := m.command(from, to)
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	m.await("the move to be under way", func() bool {
		select {
		case <-ended:
			return true
		default:
			return m.arrived(target) > before
		}
	})
	time.Sleep(time.Duration(m.seed.Int64N(int64(20 * time.Millisecond))))
	_ = cmd.Process.Kill()
	<-ended
	m.Logf("killed after %d jobs have arrived: %s", m.arrived(target)-before, said)
}

// finish runs a move to its end.
func (m *moves) finish(from, to string) {
	m.Helper()
	cmd, said := m.command(from, to)
	if err := cmd.Run(); err != nil {
		m.Fatalf("%v: %s", err, said)
	}
}

// arrived returns how many jobs of the queue a database has ever had.
func (m *moves) arrived(d *dburl.Database) (n int64) {
	for _, c := range m.counts(d) {
		if c.Queue == "clicks" {
			n += c.Jobs
		}
	}
	return n
}

func (m *moves) counts(d *dburl.Database) []queue.StatusCount {
	m.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
	counts, err := inspector.Counts(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	return counts
}

// wantLive checks how many live jobs a database has, in whatever queue.
func (m *moves) wantLive(d *dburl.Database, want int64) {
	m.Helper()
	live := int64(0)
	for _, c := range m.counts(d) {
		if c.Status == queue.StatusPending || c.Status == queue.StatusRunning {
			live += c.Jobs
		}
	}
	if live != want {
		m.Errorf("live jobs in %s: got %d, want %d", d.Description, live, want)
	}
}

// work runs a worker in each database. end ends them.
func (m *moves) work(databases ...*dburl.Database) (end func()) {
	ctx, cancel := context.WithCancel(m.Context())
	var workers sync.WaitGroup
	for _, d := range databases {
		workers.Go(func() {
			err := engine.Worker{
				Backend: d.Queue, Queues: []string{"clicks"}, Concurrency: 2, Handler: queue.HandlerFunc(m.handle),
				Logger: slog.New(slog.DiscardHandler),
			}.Run(ctx)
			if err != nil {
				m.Error(err)
			}
		})
	}
	return func() {
		cancel()
		workers.Wait()
	}
}

func (m *moves) handle(_ context.Context, job *queue.Job) error {
	time.Sleep(5 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ran[string(job.Payload)]++
	return nil
}

// total returns how many runs there were.
func (m *moves) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, times := range m.ran {
		n += times
	}
	return n
}

// await waits until done returns true.
func (m *moves) await(what string, done func() bool) {
	m.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			m.Fatalf("waited a minute for %s", what)
		}
	}
}
