package main

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// kind is a kind among the jobs that were looked at.
type kind struct {
	Kind   string               `json:"kind"`
	Paused bool                 `json:"paused"`
	Seen   map[queue.Status]int `json:"seen"` // how many of the jobs looked at have the status
	// AtLeast are the statuses that more jobs have than were looked at: Seen may be too low there.
	AtLeast []queue.Status `json:"at_least,omitempty"`
}

func (a *app) kindsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "List, pause and resume kinds of jobs",
	}
	return group(cmd,
		&cobra.Command{
			Use:   "list",
			Short: "List the kinds of the newest jobs, and the paused ones",
			Long: `kinds list looks at the newest jobs of each status, a thousand at most. It
counts those by kind and status. If there are more, a count is followed by +, in
JSON its status is in at_least, and a kind of older jobs may be missing: ask for
it with errand jobs list --kind KIND.`,
			Args: cobra.NoArgs,
			RunE: a.reading(a.listKinds),
		},
		a.pauseKindCommand("pause", "Make workers claim no more jobs of these kinds, in any queue", true),
		a.pauseKindCommand("resume", "End the pause of these kinds", false))
}

func (a *app) pauseKindCommand(name, short string, paused bool) *cobra.Command {
	unseen := false
	cmd := &cobra.Command{
		Use:               name + " KIND...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeKinds,
		RunE: a.writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.pauseKinds(ctx, d, args, paused, unseen)
		}),
	}
	cmd.Flags().BoolVar(&unseen, "unseen", false, "also a kind that no job, schedule or live worker has")
	return a.audited(cmd)
}

// statuses are those that jobs have, in the order in which tables show them.
var statuses = []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusHeld, queue.StatusDead, queue.StatusCancelled, queue.StatusCompleted}

// everyStatus is also that one which errand sets on no job.
var everyStatus = append(statuses[:len(statuses):len(statuses)], queue.StatusFailed)

const maxSeen = 1000

// seenKinds looks at the newest jobs of each status, and returns their kinds and the paused ones.
// atLeast are the statuses that more jobs have than it has looked at.
func seenKinds(ctx context.Context, d *dburl.Database) (list []kind, atLeast []queue.Status, err error) {
	inspector, err := need[driver.Inspector](d)
	if err != nil {
		return nil, nil, err
	}
	kinds := make(map[string]*kind)
	find := func(name string) *kind {
		if kinds[name] == nil {
			kinds[name] = &kind{Kind: name, Seen: make(map[queue.Status]int)}
		}
		return kinds[name]
	}
	for _, status := range statuses {
		page, next, err := inspector.Jobs(ctx, queue.Filter{Status: status, Limit: maxSeen, Bare: true})
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

func (a *app) listKinds(ctx context.Context, d *dburl.Database, _ []string) error {
	list, atLeast, err := seenKinds(ctx, d)
	if err != nil {
		return err
	}
	if len(atLeast) > 0 {
		a.notef("there are more jobs: the counts are of the newest %d of each status", maxSeen)
	}
	return write(a, list, func() table {
		t := table{columns: columns("KIND PAUSED PENDING RUNNING HELD DEAD CANCELLED COMPLETED")}
		for _, k := range list {
			row := []string{k.Kind, yes(k.Paused)}
			for _, status := range statuses {
				count := strconv.Itoa(k.Seen[status])
				if slices.Contains(atLeast, status) {
					count += "+"
				}
				row = append(row, count)
			}
			t.add(row...)
		}
		return t
	})
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *app) pauseKinds(ctx context.Context, d *dburl.Database, names []string, paused, unseen bool) error {
	pauser, err := need[driver.Pauser](d)
	if err != nil {
		return err
	}
	if err := a.checkKinds(ctx, d, names, unseen); err != nil {
		return err
	}
	before, err := pauser.PausedKinds(ctx)
	if err != nil {
		return err
	}
	var list []changed
	for _, name := range names {
		c := changed{Name: name, Paused: paused, Changed: slices.Contains(before, name) != paused}
		err := a.act(ctx, d, pauseEntry("kinds", "kind="+name, paused, c), func(db queue.DB, _ *queue.AuditEntry) error {
			if paused {
				return pauser.PauseKinds(ctx, db, name)
			}
			return pauser.ResumeKinds(ctx, db, name)
		})
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	return a.writeChanged("KIND", list)
}

// changed is something that was paused or resumed.
type changed struct {
	Name    string `json:"name"`
	Group   string `json:"group,omitempty"` // of the queue Name; "" if it was the whole queue
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"` // false if it was so before
}

// pauseEntry is the audit entry of a pause, or of its end.
func pauseEntry(what, selection string, paused bool, c changed) queue.AuditEntry {
	entry := queue.AuditEntry{Action: what + ".resume", Selection: selection}
	if paused {
		entry.Action = what + ".pause"
	}
	if c.Changed {
		entry.Count = 1
	}
	return entry
}

// writeChanged writes what has been paused or resumed. names are the columns of its name, and of
// its group if it has one.
func (a *app) writeChanged(names string, list []changed) error {
	return write(a, list, func() table {
		t := table{columns: columns(names + " PAUSED CHANGED")}
		for _, c := range list {
			cells := []string{c.Name}
			if c.Group != "" {
				cells = append(cells, c.Group)
			}
			t.add(append(cells, yes(c.Paused), yes(c.Changed))...)
		}
		return t
	})
}
