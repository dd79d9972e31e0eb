package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Kind is a kind among the jobs that were looked at.
type Kind struct {
	Kind   string               `json:"kind"`
	Paused bool                 `json:"paused"`
	Seen   map[queue.Status]int `json:"seen"` // how many of the jobs looked at have the status
	// AtLeast are the statuses of which not all jobs were looked at: Seen may be too low there.
	AtLeast []queue.Status `json:"at_least,omitempty"`
}

// Statuses are the statuses that errand sets, in the order in which tables show them.
var Statuses = []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusHeld, queue.StatusDead, queue.StatusCancelled, queue.StatusCompleted}

// MaxSeen is how many jobs of each status SeenKinds looks at.
const MaxSeen = 1000

// SeenKinds looks at the newest jobs of each status, and returns their kinds and the paused kinds.
// atLeast are the statuses of which it has not looked at all jobs.
func SeenKinds(ctx context.Context, d *dburl.Database) (list []Kind, atLeast []queue.Status, err error) {
	inspector, err := Need[driver.Inspector](d)
	if err != nil {
		return nil, nil, err
	}
	kinds := make(map[string]*Kind)
	find := func(name string) *Kind {
		if kinds[name] == nil {
			kinds[name] = &Kind{Kind: name, Seen: make(map[queue.Status]int)}
		}
		return kinds[name]
	}
	for _, status := range Statuses {
		page, next, err := inspector.Jobs(ctx, queue.Filter{Status: status, Limit: MaxSeen, Bare: true})
		if err != nil {
			return nil, nil, err
		}
		if next != 0 {
			atLeast = append(atLeast, status)
		}
		for _, r := range page {
			find(r.Kind).Seen[status]++
		}
	}
	if pauser, ok := driver.As[driver.Pauser](d.Queue); ok {
		paused, err := pauser.PausedKinds(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range paused {
			find(name).Paused = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		kinds[name].AtLeast = atLeast
		list = append(list, *kinds[name])
	}
	return list, atLeast, nil
}

// queueNames returns the queues that have jobs or rules.
func queueNames(ctx context.Context, d *dburl.Database) ([]string, error) {
	all := make(map[string]bool)
	inspector, err := Need[driver.Inspector](d)
	if err != nil {
		return nil, err
	}
	counts, err := inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		all[c.Queue] = true
	}
	if ruler, ok := driver.As[driver.Ruler](d.Queue); ok {
		rules, err := ruler.Rules(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			all[r.Queue] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// KindNames returns the kinds of the newest jobs, and the paused kinds.
func KindNames(ctx context.Context, d *dburl.Database) ([]string, error) {
	list, _, err := SeenKinds(ctx, d)
	var all []string
	for _, k := range list {
		all = append(all, k.Kind)
	}
	return all, err
}

func scheduleNames(ctx context.Context, d *dburl.Database) ([]string, error) {
	scheduler, err := Need[driver.Scheduler](d)
	if err != nil {
		return nil, err
	}
	records, err := scheduler.Schedules(ctx)
	var all []string
	for _, r := range records {
		all = append(all, r.Name)
	}
	return all, err
}
