package processes

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var giveBack = scenario.Scenario{
	Number: 27,
	Name:   "give-back",
	What:   "a worker that is deep in a backlog of two hours is told to stop, and another goes on",
	Run:    stopInBacklog,
}

const (
	backlogged = 2 * time.Hour
	// slotsInBacklog is the Concurrency of each worker.
	slotsInBacklog = 8
	// outOfPlace is how many places after its own a job may start, because the slots start jobs
	// concurrently.
	outOfPlace = 100
)

func stopInBacklog(ctx context.Context, h *harness.Harness) error {
	jobs := harness.Size(h, 20_000, 3000)
	if err := makeBacklog(ctx, h, jobs); err != nil {
		return err
	}
	work := child.Work{Worker: peer.Worker{Concurrency: slotsInBacklog}, Least: time.Millisecond, Most: time.Millisecond}
	first, err := h.Worker("first", work)
	if err != nil {
		return err
	}
	// Between two claims a worker that drains faster than it claims holds little: the stop is to come
	// while it holds more than it runs.
	var held int
	if err := h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		_, effects, err := h.Ledger.Progress(ctx)
		if err != nil || effects < jobs/5 {
			return false, err
		}
		held, err = h.Count(ctx, `SELECT count(*) FROM errand.jobs WHERE status = 'running'`)
		return held > 2*slotsInBacklog, err
	}); err != nil {
		return err
	}
	h.RecordFault(audit.Fault{What: "SIGTERM", At: time.Now(), Worker: first.Name})
	if err := first.Terminate(); err != nil {
		return err
	}
	if err := first.Wait(time.Minute); err != nil {
		return err
	}
	if err := checkBacklog(ctx, h); err != nil {
		return err
	}
	crew, err := h.Crew(1, work)
	if err != nil {
		return err
	}
	f, book, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.Row.Check(f.Dup == 0, "duplicates 0", "%d", f.Dup)
	h.Row.Check(held > 2*slotsInBacklog, "jobs that the worker held, beyond those that it ran", "%d held, %d slots", held, slotsInBacklog)
	late, number := latest(book.Starts)
	h.Row.Check(late <= outOfPlace, fmt.Sprintf("places that a job started behind its own: %d at most", outOfPlace), "%d, job %d of %d", late, number, jobs)
	return nil
}

// makeBacklog enqueues jobs that have been due for two hours, ordered by number.
func makeBacklog(ctx context.Context, h *harness.Harness, jobs int) error {
	const batch = 1000
	for next := 1; next <= jobs; next += batch {
		numbers := make([]int, min(batch, jobs-next+1))
		for i := range numbers {
			numbers[i] = next + i
		}
		if err := h.Enqueue(ctx, peer.Plain, numbers...); err != nil {
			return err
		}
	}
	return h.Exec(ctx, fmt.Sprintf(`UPDATE errand.jobs SET scheduled_at = now() - interval '%d seconds' + (payload ->> 'number')::integer * interval '1 ms'`,
		int(backlogged.Seconds())))
}

// checkBacklog demands that released jobs have kept their due time. So they keep their place, and
// the backlog its age.
func checkBacklog(ctx context.Context, h *harness.Harness) error {
	moved, err := h.Count(ctx, `SELECT count(*) FROM errand.jobs WHERE status = 'pending' AND scheduled_at > now() - interval '1 hour'`)
	if err != nil {
		return err
	}
	h.Row.Check(moved == 0, "jobs given back with another due time: 0", "%d", moved)
	db, err := sql.Open("pgx", h.DSN())
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	backlogs, err := q.Backlogs(ctx)
	if err != nil {
		return err
	}
	var age time.Duration
	for _, b := range backlogs {
		age = max(age, b.Age)
	}
	h.Row.Check(age >= backlogged-time.Minute, "age of the backlog after the stop: 2 h", "%v", age.Round(time.Second))
	return nil
}

// latest returns the most places that a job started after its own, among the jobs that the last
// worker started.
func latest(starts []ledger.Entry) (places, number int) {
	var order []int
	for _, s := range starts {
		if s.Worker != starts[0].Worker {
			order = append(order, s.Number)
		}
	}
	rank := make(map[int]int, len(order))
	for i, n := range slices.Sorted(slices.Values(order)) {
		rank[n] = i
	}
	for i, n := range order {
		if i-rank[n] > places {
			places, number = i-rank[n], n
		}
	}
	return places, number
}
