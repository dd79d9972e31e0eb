package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// fleet looks for workers that are not as they should be.
func fleet(ctx context.Context, d *doctor) (finding, error) {
	f, ok := queue.As[queue.Fleet](d.queue)
	if !ok {
		return finding{level: Skipped, value: errNoCapability.Error()}, nil
	}
	workers, err := f.Workers(ctx)
	if err != nil {
		return finding{}, err
	}
	live := living(workers)
	var versions []string
	for _, w := range live {
		// A worker that stops may have a deploy's old version. Its report may be ten seconds late.
		if isDraining(w) && w.SeenAt.Sub(w.DrainingAt) > w.Grace+queue.ReportInterval {
			return finding{Warn, fmt.Sprintf("worker %s stops since %v, its Grace is %v", w.Name, w.DrainingAt.Format(time.RFC3339), w.Grace),
				"a handler ignores the end of its context: its log has the stack. Kill the process; its jobs run again"}, nil
		}
		if w.ClaimError != "" {
			return finding{Fail, fmt.Sprintf("the claims of worker %s fail: %s", w.Name, w.ClaimError), "mend what the error names"}, nil
		}
		if !isDraining(w) && !slices.Contains(versions, w.Version) {
			versions = append(versions, w.Version)
		}
	}
	if len(versions) > 1 {
		slices.Sort(versions)
		return finding{Warn, "workers have different versions of errand: " + strings.Join(versions, ", "),
			"finish the deploy; see CHANGELOG for what they share"}, nil
	}
	return finding{value: fmt.Sprintf("%d workers are alive, %d have vanished in the last hour", len(live), len(workers)-len(live))}, nil
}

// nobodyServes looks for due jobs that no live worker claims, because of their queue or kind.
func nobodyServes(ctx context.Context, d *doctor) (finding, error) {
	b, ok := queue.As[queue.Backlogger](d.queue)
	f, isFleet := queue.As[queue.Fleet](d.queue)
	if !ok || !isFleet {
		return finding{level: Skipped, value: errNoCapability.Error()}, nil
	}
	backlogs, err := b.Backlogs(ctx)
	if err != nil {
		return finding{}, err
	}
	workers, err := f.Workers(ctx)
	if err != nil {
		return finding{}, err
	}
	live := living(workers)
	for _, b := range backlogs {
		if b.Age < soon {
			continue
		}
		serving := slices.DeleteFunc(slices.Clone(live), func(w queue.WorkerRecord) bool { return !slices.Contains(w.Queues, b.Queue) })
		if len(serving) == 0 {
			return finding{Fail, similarly(fmt.Sprintf("%d workers are alive, and none serves the queue %s, which has due jobs", len(live), b.Queue), b.Queue, queuesOf(live)),
				"start a worker that has the queue in its Queues"}, nil
		}
		kinds, err := d.dueKinds(ctx, b.Queue)
		if err != nil {
			return finding{}, err
		}
		for _, kind := range kinds {
			if !slices.ContainsFunc(serving, func(w queue.WorkerRecord) bool { return handles(w, kind) }) {
				return finding{Fail, similarly(fmt.Sprintf("no worker of the queue %s handles the kind %s, which has due jobs", b.Queue, kind), kind, kindsOf(serving)),
					"deploy a worker whose Mux has the kind"}, nil
			}
		}
	}
	return finding{value: "each queue and kind with due jobs has a worker"}, nil
}

// similarly appends the names that are spelled like name.
func similarly(text, name string, names []string) string {
	return strings.Join(similar(text, name, names), "; ")
}

// dueKinds returns kinds of jobs of the queue that have been due for a while.
func (d *doctor) dueKinds(ctx context.Context, name string) (kinds []string, err error) {
	if d.server != nil {
		err = d.server.rows(ctx, "due_kinds", func(r *sql.Rows) error {
			var kind string
			var n int
			err := r.Scan(&kind, &n)
			kinds = append(kinds, kind)
			return err
		}, name, soon.Seconds())
		return kinds, err
	}
	inspector, ok := queue.As[queue.Inspector](d.queue)
	if !ok {
		return nil, nil
	}
	page, _, err := inspector.Jobs(ctx, queue.Filter{Queue: name, Status: queue.StatusPending, Bare: true})
	for _, r := range page {
		if time.Since(r.ScheduledAt) >= soon && !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds, err
}
