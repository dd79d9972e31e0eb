package explain

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// due are due jobs of a queue with the same kind and group.
type due struct {
	kind, group string
	jobs        int // all of them
	// free are those that are not behind a job of their line, and longest is for how long the first of
	// them has been due.
	free    int
	longest time.Duration
}

// maxDue is how many due jobs of a queue Job looks at.
const maxDue = maxPages * 1000

// readDue returns the due jobs of a queue: those that a claim takes before the job before, or all
// if that is nil. Of ordered jobs only those count that are the first of their line, and none
// before a job. isAll is false if there are more than it has looked at, and ok if they cannot be
// known.
func readDue(ctx context.Context, q *inquiry, name string, before *queue.Record) (list []due, isAll, ok bool, err error) {
	if q.Server == nil {
		list, isAll, err = listDue(ctx, q, name, before)
		return list, isAll, true, err
	}
	priority, at, id := int32(math.MaxInt32), "infinity", int64(math.MaxInt64)
	if before != nil {
		priority, at, id = before.Priority, before.ScheduledAt.Format(time.RFC3339Nano), before.ID
	}
	looked := 0
	err = q.Server.Rows(ctx, "due", func(r *sql.Rows) error {
		var d due
		var longest float64
		err := r.Scan(&d.kind, &d.group, &d.jobs, &d.free, &longest)
		d.longest = words.Seconds(longest)
		looked += d.jobs
		list = append(list, d)
		return err
	}, name, priority, at, id, before == nil)
	ok, err = q.tryOrNote(ctx, "which due jobs the queue "+name+" has", err)
	return list, looked < maxDue, ok, err
}

// listDue does the same through the backend.
func listDue(ctx context.Context, q *inquiry, name string, before *queue.Record) (list []due, isAll bool, err error) {
	first := make(map[string]int64) // of each line: the job that may run next; 0 for none
	if before == nil {
		for _, status := range []queue.Status{queue.StatusRunning, queue.StatusHeld} {
			if _, err := q.list(ctx, queue.Filter{Queue: name, Status: status}, func(r queue.Record) bool {
				if r.Ordered {
					first[r.Group] = 0
				}
				return true
			}); err != nil {
				return nil, false, err
			}
		}
	}
	var jobs []queue.Record
	isAll, err = q.list(ctx, queue.Filter{Queue: name, Status: queue.StatusPending}, func(r queue.Record) bool {
		if id, ok := first[r.Group]; r.Ordered && before == nil && (!ok || r.ID < id) {
			first[r.Group] = r.ID
		}
		if !r.ScheduledAt.After(q.at) && (before == nil || r.ID != before.ID && isBefore(r, *before)) {
			jobs = append(jobs, r)
		}
		return true
	})
	places := make(map[[2]string]int)
	for _, r := range jobs {
		i, ok := places[[2]string{r.Kind, r.Group}]
		if !ok {
			i, list = len(list), append(list, due{kind: r.Kind, group: r.Group})
			places[[2]string{r.Kind, r.Group}] = i
		}
		d := &list[i]
		d.jobs++
		if !r.Ordered || before == nil && first[r.Group] == r.ID {
			d.free++
			d.longest = max(d.longest, q.at.Sub(r.ScheduledAt))
		}
	}
	return list, isAll, err
}

// isBefore reports whether a claim takes a before b.
func isBefore(a, b queue.Record) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	if !a.ScheduledAt.Equal(b.ScheduledAt) {
		return a.ScheduledAt.Before(b.ScheduledAt)
	}
	return a.ID < b.ID
}

// claimable says which due jobs of a queue workers would claim now.
type claimable struct {
	jobs    int           // which they would claim
	longest time.Duration // for how long the first of these has been due
	others  []string      // how many they would not claim, and why
	isAll   bool          // false if there are more than were looked at
}

// readClaimable returns which due jobs of a queue these workers would claim, before the job before
// unless that is nil. No workers means that any worker may claim them. ok is false if that cannot
// be known.
func readClaimable(ctx context.Context, q *inquiry, name string, before *queue.Record, workers []driver.WorkerRecord) (c claimable, ok bool, err error) {
	list, isAll, ok, err := readDue(ctx, q, name, before)
	if err != nil || !ok {
		return c, false, err
	}
	full, err := findFullGroups(ctx, q, name, list)
	if err != nil {
		return c, false, err
	}
	c.isAll = isAll
	others := make(map[string]int)
	for _, d := range list {
		why := ""
		switch {
		case len(workers) > 0 && !slices.ContainsFunc(workers, func(w driver.WorkerRecord) bool { return reader.Handles(w, d.kind) }):
			why = "of kinds that these workers do not handle"
		case slices.Contains(q.pauses, d.kind):
			why = "of paused kinds"
		case d.group != "" && q.rules.find(name, d.group).Paused:
			why = "of paused groups"
		case full[d.group]:
			why = "of groups that are at their limit, or have used up their rate"
		case before != nil && d.group != before.Group && q.rules.takesTurns(name):
			why = "of other groups, which take turns with this one"
		default:
			c.jobs += d.free
			c.longest = max(c.longest, d.longest)
			others["that are ordered and wait for their turn"] += d.jobs - d.free
			continue
		}
		others[why] += d.jobs
	}
	for why, n := range others {
		if n > 0 {
			c.others = append(c.others, fmt.Sprintf("not counted: %s %s", words.Count(n, "job"), why))
		}
	}
	slices.Sort(c.others)
	return c, true, nil
}

// findFullGroups returns the groups in which nothing starts now, because of their limit or their
// rate.
func findFullGroups(ctx context.Context, q *inquiry, name string, list []due) (map[string]bool, error) {
	full := make(map[string]bool)
	if !q.rules.takesTurns(name) {
		return full, nil
	}
	running := make(map[string]int)
	_, err := q.list(ctx, queue.Filter{Queue: name, Status: queue.StatusRunning}, func(r queue.Record) bool {
		running[r.Group]++
		return true
	})
	if err != nil {
		return nil, err
	}
	var rated []string
	for _, d := range list {
		switch most := q.rules.perGroup(name, d.group); {
		case d.group == "":
		case most > 0 && running[d.group] >= most:
			full[d.group] = true
		case q.rules.groupRate(name, d.group).Jobs > 0 && len(rated) < 1000:
			rated = append(rated, d.group)
		}
	}
	if len(rated) == 0 {
		return full, nil
	}
	waits, err := readRateWaits(ctx, q, name, rated...)
	for group, w := range waits {
		if w.Wait > 0 {
			full[group] = true
		}
	}
	return full, err
}

// isHeldUp reports whether the rule of a queue keeps all of its jobs from starting now.
func isHeldUp(ctx context.Context, q *inquiry, name string) (bool, error) {
	rule := q.rules.find(name, "")
	if rule.Paused {
		return true, nil
	}
	if rule.Running > 0 {
		n, _, err := countRunning(ctx, q, queue.Filter{Queue: name}, rule.Running)
		if err != nil || n >= rule.Running {
			return true, err
		}
	}
	if rule.Rate.Jobs <= 0 {
		return false, nil
	}
	waits, err := readRateWaits(ctx, q, name, "")
	return waits[""].Wait > 0, err
}
