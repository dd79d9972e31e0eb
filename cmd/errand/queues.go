package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// queueState is a queue as errand queues list shows it.
type queueState struct {
	Queue  string                 `json:"queue"`
	Paused bool                   `json:"paused"`
	Jobs   map[queue.Status]int64 `json:"jobs"`
	// Estimated are the statuses whose number is an estimate.
	Estimated []queue.Status `json:"estimated,omitempty"`
	// OldestDue is how long the job that has waited longest has been due.
	OldestDue time.Duration `json:"oldest_due_ns,omitempty"`
	Rules     []queue.Rule  `json:"rules,omitempty"`
}

func (a *app) queuesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "List, show, limit, pause, resume and move queues",
	}
	return group(cmd,
		&cobra.Command{
			Use:   "list",
			Short: "List the queues that have jobs or rules",
			Long: `queues list shows how many jobs of each status a queue has, and for how long the
oldest due job has waited. A ~ marks an estimate. PAUSED is yes, no, or the
number of paused groups.`,
			Args: cobra.NoArgs,
			RunE: a.reading(a.listQueues),
		},
		a.showQueueCommand(),
		a.limitQueueCommand(),
		a.moveQueueCommand(),
		a.pauseQueueCommand("pause", "Make workers claim no more jobs of a queue, or of one of its groups", true),
		a.pauseQueueCommand("resume", "End the pause of a queue, or of one of its groups", false))
}

func (a *app) listQueues(ctx context.Context, d *dburl.Database, _ []string) error {
	list, err := queueStates(ctx, d)
	if err != nil {
		return err
	}
	return write(a, list, func() table { return queueTable(list) })
}

// queueStates returns the queues that have jobs or rules, ordered by name.
func queueStates(ctx context.Context, d *dburl.Database) ([]queueState, error) {
	inspector, err := need[driver.Inspector](d)
	if err != nil {
		return nil, err
	}
	counts, err := inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	states := make(map[string]*queueState)
	find := func(name string) *queueState {
		if states[name] == nil {
			states[name] = &queueState{Queue: name, Jobs: make(map[queue.Status]int64)}
		}
		return states[name]
	}
	for _, c := range counts {
		s := find(c.Queue)
		s.Jobs[c.Status] = c.Jobs
		if !c.Exact {
			s.Estimated = append(s.Estimated, c.Status)
		}
	}
	if backlogger, ok := driver.As[driver.Backlogger](d.Queue); ok {
		backlogs, err := backlogger.Backlogs(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range backlogs {
			find(b.Queue).OldestDue = b.Age
		}
	}
	if ruler, ok := driver.As[driver.Ruler](d.Queue); ok {
		rules, err := ruler.Rules(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			s := find(r.Queue)
			s.Rules = append(s.Rules, r)
			s.Paused = s.Paused || r.Paused && r.Group == ""
		}
	}
	var list []queueState
	for _, name := range slices.Sorted(maps.Keys(states)) {
		list = append(list, *states[name])
	}
	return list, nil
}

func queueTable(list []queueState) table {
	t := table{columns: columns("QUEUE PAUSED PENDING OLDEST_DUE RUNNING HELD DEAD CANCELLED COMPLETED RULES")}
	for _, s := range list {
		oldest := ""
		if s.OldestDue > 0 {
			oldest = ageText(s.OldestDue)
		}
		count := func(status queue.Status) string {
			return estimateMark(slices.Contains(s.Estimated, status)) + strconv.FormatInt(s.Jobs[status], 10)
		}
		t.add(s.Queue, s.pauseText(), count(queue.StatusPending), oldest, count(queue.StatusRunning), count(queue.StatusHeld),
			count(queue.StatusDead), count(queue.StatusCancelled), count(queue.StatusCompleted), s.ruleText())
	}
	return t
}

func (s queueState) pauseText() string {
	groups := 0
	for _, r := range s.Rules {
		if r.Paused && r.Group != "" {
			groups++
		}
	}
	switch {
	case s.Paused:
		return "yes"
	case groups > 0:
		return countText(groups, "group")
	}
	return "no"
}

// ruleText returns the limits of a queue in a few words.
func (s queueState) ruleText() string {
	var parts []string
	groups := 0
	for _, r := range s.Rules {
		if r.Group != "" {
			groups++
			continue
		}
		if r.Running > 0 {
			parts = append(parts, fmt.Sprintf("running %d", r.Running))
		}
		if r.PerGroup > 0 {
			parts = append(parts, fmt.Sprintf("per group %d", r.PerGroup))
		}
		if r.Share > 0 {
			parts = append(parts, fmt.Sprintf("share %d", r.Share))
		}
		if r.Rate.Jobs > 0 {
			parts = append(parts, rateText(r.Rate))
		}
		if r.GroupRate.Jobs > 0 {
			parts = append(parts, "per group "+rateText(r.GroupRate))
		}
		if r.OnDead != queue.PassDead {
			parts = append(parts, "holds dead jobs")
		}
	}
	if groups > 0 {
		parts = append(parts, "rules of "+countText(groups, "group"))
	}
	return strings.Join(parts, ", ")
}

func (a *app) pauseQueueCommand(name, short string, paused bool) *cobra.Command {
	var groupName string
	var unseen bool
	cmd := &cobra.Command{
		Use:               name + " QUEUE...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeQueues,
		RunE: a.writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.pauseQueues(ctx, d, args, groupName, paused, unseen)
		}),
	}
	cmd.Flags().StringVar(&groupName, "group", "", "only the jobs of this group")
	cmd.Flags().BoolVar(&unseen, "unseen", false, unseenQueue)
	return a.audited(cmd)
}

func (a *app) pauseQueues(ctx context.Context, d *dburl.Database, names []string, group string, paused, unseen bool) error {
	ruler, err := need[driver.Ruler](d)
	if err != nil {
		return err
	}
	states, err := queueStates(ctx, d)
	if err != nil {
		return err
	}
	was := make(map[string]bool)
	for _, s := range states {
		for _, r := range s.Rules {
			if r.Group == group {
				was[r.Queue] = r.Paused
			}
		}
	}
	if err := a.checkQueues(ctx, d, states, names, group, unseen); err != nil {
		return err
	}
	var list []changed
	for _, name := range names {
		c := changed{Name: name, Group: group, Paused: paused, Changed: was[name] != paused}
		selection := "queue=" + name
		if group != "" {
			selection += " group=" + group
		}
		err := a.act(ctx, d, pauseEntry("queues", selection, paused, c), func(db queue.DB, _ *queue.AuditEntry) error {
			if group == "" {
				return ruler.PauseQueue(ctx, db, name, paused)
			}
			return ruler.PauseGroup(ctx, db, name, group, paused)
		})
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	if group != "" {
		return a.writeChanged("QUEUE GROUP", list)
	}
	return a.writeChanged("QUEUE", list)
}

func queuesOf(states []queueState) (names []string) {
	for _, s := range states {
		names = append(names, s.Queue)
	}
	return names
}
