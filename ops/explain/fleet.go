package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// reportsNeed is what keeps a worker silent that was not killed.
var reportsNeed = fmt.Sprintf("each worker reports itself every %v, for which its pool needs a connection that no handler holds", driver.ReportInterval)

// lastSeen says which process a worker is, and when it last reported itself.
func lastSeen(w driver.WorkerRecord) string {
	return fmt.Sprintf("worker %s (process %d on host %s) last reported itself %v ago", w.Name, w.PID, w.Host, words.Short(w.Silent))
}

// readWorkers reads which workers live, if the backend knows.
func readWorkers(ctx context.Context, q *inquiry) error {
	if q.knowsWorkers {
		return nil
	}
	workers, err := q.Workers(ctx)
	if note := "which workers live: the backend does not know them"; errors.Is(err, reader.ErrNotTold) && !slices.Contains(q.unknown, note) {
		q.unknown = append(q.unknown, note)
	}
	if ok, err := q.tryOrNote(ctx, "which workers live", err); !ok {
		return err
	}
	q.workers, q.knowsWorkers = workers, true
	return excuseSilent(ctx, q)
}

// excuseSilent takes workers for live ones, and notes that this is not known, if they are silent
// because a transaction keeps their reports waiting.
func excuseSilent(ctx context.Context, q *inquiry) error {
	if q.Server == nil {
		return nil
	}
	held, err := q.Server.HeldReports(ctx, q.workers)
	if ok, err := q.tryOrAsk(ctx, "which transactions keep reports of workers waiting", seeLocks, err); !ok {
		return err
	}
	all, names := held.Apart(q.workers)
	if len(names) > 0 {
		q.workers, q.held = all, held
		q.unknown = append(q.unknown, held.Text(names))
	}
	return nil
}

// isSilent reports whether a worker has missed a report, and nothing else explains that.
func (q *inquiry) isSilent(w driver.WorkerRecord) bool {
	return reader.IsSilent(w) && !q.held.Explains(w)
}

// isReporting reports whether a worker reports itself, or would if it could.
func (q *inquiry) isReporting(w driver.WorkerRecord) bool { return !w.Vanished && !q.isSilent(w) }

// describeUnseen says what a list of workers leaves out, if there can be such workers.
func describeUnseen(q *inquiry) []string {
	if q.Server == nil && q.File == nil {
		return nil
	}
	return []string{"workers written in SQL do not report themselves, and are not counted"}
}

// listServing returns the live workers of the job's queue.
func listServing(q *inquiry) []driver.WorkerRecord {
	return slices.DeleteFunc(reader.Living(q.workers), func(w driver.WorkerRecord) bool { return !slices.Contains(w.Queues, q.job.Queue) })
}

// findWorker returns the record of a worker, if it has reported itself.
func findWorker(q *inquiry, name string) (driver.WorkerRecord, bool) {
	i := slices.IndexFunc(q.workers, func(w driver.WorkerRecord) bool { return w.Name == name })
	if i < 0 {
		return driver.WorkerRecord{}, false
	}
	return q.workers[i], true
}

// similar returns a fact, and which of names are spelled like name, or else which names there are.
func similar(fact, name string, names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	if near := reader.Nearest(name, names); near != "" {
		return []string{fact, "similar names: " + near}
	}
	return []string{fmt.Sprintf("%s (%s)", fact, words.Enumerate(names))}
}

// describe says in a line each what up to three workers do.
func describe(workers []driver.WorkerRecord) (lines []string) {
	for _, w := range workers[:min(len(workers), 3)] {
		line := fmt.Sprintf("worker %s: %d of %d busy", w.Name, w.Busy, w.Concurrency)
		for _, s := range w.Slots {
			line += fmt.Sprintf(", of the queue %s %d of %d", s.Queue, s.Busy, s.Slots)
		}
		if reader.IsDraining(w) {
			line += ", stopping since " + w.DrainingAt.Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("%s, reported itself %v ago", line, words.Short(w.Silent)))
	}
	return append(lines, words.More(len(workers)-3)...)
}

// describeLastWorkers says what has become of the workers, if none is alive. The record of a worker
// that stops in order is removed at once, so the statistics of the jobs say when one has last
// worked.
func describeLastWorkers(ctx context.Context, q *inquiry) ([]string, error) {
	gone, last := 0, driver.WorkerRecord{}
	for _, w := range q.workers {
		if w.Vanished {
			gone++
			if w.SeenAt.After(last.SeenAt) {
				last = w
			}
		}
	}
	became := []string{"all workers have stopped in order, or none has reported itself in the last hour"}
	if gone > 0 {
		became = []string{
			fmt.Sprintf("%s vanished without stopping in order. The last was %s, %v ago", words.Count(gone, "worker"), last.Name, words.Short(last.Silent)),
			fmt.Sprintf("if its process %d on host %s still runs, it hangs, is cut off, or its handlers hold all connections of its pool", last.PID, last.Host),
		}
	}
	list, err := q.Stats(ctx, queue.StatsFilter{From: q.at.Add(-driver.StatsKept), Step: time.Minute})
	if ok, err := q.tryOrNote(ctx, "when a worker has last run a job", err); !ok {
		return became, err
	}
	if len(list) == 0 {
		return append(became, fmt.Sprintf("no worker has ended a job in the last %s", plain.Duration(driver.StatsKept))), nil
	}
	at := list[len(list)-1].At
	return append(became, fmt.Sprintf("a worker last ended a job in the minute of %s", at.Format(time.RFC3339))), nil
}
