package gateway

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

const (
	// deathsKept is how long the gateway remembers a job that it has reclaimed in its last attempt,
	// and maxDeaths how many. Workers ask for them each quarter of a lease.
	deathsKept = 10 * time.Minute
	maxDeaths  = 10_000
)

// deaths are the jobs that died by a crash, of which no worker has learnt yet. Workers that reclaim
// jobs by themselves call their OnDead for them; those behind a gateway have to be told.
type deaths struct {
	mu  sync.Mutex
	all []death // the oldest first
}

type death struct {
	job *queue.Job
	at  time.Time
}

// note notes reclaimed jobs that are dead.
func (d *deaths) note(dead []*queue.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range dead {
		d.all = append(d.all, death{j, time.Now()})
	}
	d.all = slices.DeleteFunc(d.all, func(old death) bool { return time.Since(old.at) > deathsKept })
	d.all = slices.Delete(d.all, 0, max(len(d.all)-maxDeaths, 0))
}

// take removes the jobs of the queues, and returns them.
func (d *deaths) take(queues []string) (jobs []*queue.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(dead death) bool {
		isTaken := slices.Contains(queues, dead.job.Queue)
		if isTaken {
			jobs = append(jobs, dead.job)
		}
		return isTaken
	})
	return jobs
}

// toldDeaths are dead jobs that a client is told of. If it does not get the answer, the next one
// is.
type toldDeaths struct {
	wire.DeathsAnswer
	h    *Handler
	jobs []*queue.Job
}

func (t toldDeaths) giveBack() { t.h.deaths.note(t.jobs) }

// tellDeaths tells which jobs died by a crash since a client was last told.
func (q *request) tellDeaths() (any, error) {
	var in wire.DeathsRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if len(in.Queues) == 0 || len(in.Queues) > maxNames {
		return nil, invalid("queues", "%d: between 1 and %d", len(in.Queues), maxNames)
	}
	for i, name := range in.Queues {
		if err := q.checkQueue(fmt.Sprintf("queues[%d]", i), name); err != nil {
			return nil, err
		}
	}
	told := toldDeaths{h: q.h, jobs: q.h.deaths.take(in.Queues), DeathsAnswer: wire.DeathsAnswer{Jobs: []wire.Dead{}}}
	for _, j := range told.jobs {
		told.Jobs = append(told.Jobs, wire.DeadOf(j))
	}
	return told, nil
}
