package queues

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
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// State is a queue as errand queues list shows it.
type State struct {
	Queue  string                 `json:"queue"`
	Paused bool                   `json:"paused"`
	Jobs   map[queue.Status]int64 `json:"jobs"`
	// Estimated are the statuses whose number is an estimate.
	Estimated []queue.Status `json:"estimated,omitempty"`
	// OldestDue is how long the job that has waited longest has been due.
	OldestDue time.Duration `json:"oldest_due_ns,omitempty"`
	Rules     []queue.Rule  `json:"rules,omitempty"`
}

func (a app) queuesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "List, show, limit, pause, resume and move queues",
	}
	return cli.Group(cmd,
		&cobra.Command{
			Use:   "list",
			Short: "List the queues that have jobs or rules",
			Long: `queues list shows how many jobs of each status a queue has, and for how long the
oldest due job has waited. A ~ marks an estimate (see errand stats). In a long
table a queue that has a few completed jobs and no others may be missing. PAUSED
is yes, no, or the number of paused groups.`,
			Args: cobra.NoArgs,
			RunE: a.Reading(a.listQueues),
		},
		a.showQueueCommand(),
		a.limitQueueCommand(),
		a.moveQueueCommand(),
		a.pauseQueueCommand("pause", "Make workers claim no more jobs of a queue, or of a group of it", true),
		a.pauseQueueCommand("resume", "End the pause of a queue, or of a group of it", false))
}

func (a app) listQueues(ctx context.Context, d *dburl.Database, _ []string) error {
	list, err := States(ctx, d)
	if err != nil {
		return err
	}
	return cli.Write(a.App, list, func() cli.Table { return Table(list) })
}

// States returns the queues that have jobs or rules, ordered by name.
func States(ctx context.Context, d *dburl.Database) ([]State, error) {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return nil, err
	}
	counts, err := inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	states := make(map[string]*State)
	find := func(name string) *State {
		if states[name] == nil {
			states[name] = &State{Queue: name, Jobs: make(map[queue.Status]int64)}
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
	if inspector, ok := driver.As[driver.Inspector](d.Queue); ok {
		backlogs, err := inspector.Backlogs(ctx)
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
	var list []State
	for _, name := range slices.Sorted(maps.Keys(states)) {
		list = append(list, *states[name])
	}
	return list, nil
}

// Table returns a line for each queue.
func Table(list []State) cli.Table {
	t := cli.Table{Columns: cli.Columns("QUEUE PAUSED PENDING OLDEST_DUE RUNNING HELD DEAD CANCELLED COMPLETED RULES")}
	for _, s := range list {
		oldest := ""
		if s.OldestDue > 0 {
			oldest = cli.AgeText(s.OldestDue)
		}
		count := func(status queue.Status) string {
			return cli.EstimateMark(slices.Contains(s.Estimated, status)) + strconv.FormatInt(s.Jobs[status], 10)
		}
		t.Add(s.Queue, s.pauseText(), count(queue.StatusPending), oldest, count(queue.StatusRunning), count(queue.StatusHeld),
			count(queue.StatusDead), count(queue.StatusCancelled), count(queue.StatusCompleted), s.ruleText())
	}
	return t
}

func (s State) pauseText() string {
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
		return cli.CountText(groups, "group")
	}
	return "no"
}

// ruleText returns the limits of a queue in a few words.
func (s State) ruleText() string {
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
		parts = append(parts, "rules of "+cli.CountText(groups, "group"))
	}
	return strings.Join(parts, ", ")
}

func (a app) pauseQueueCommand(name, short string, paused bool) *cobra.Command {
	var groupName string
	var unseen bool
	cmd := &cobra.Command{
		Use:               name + " QUEUE...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteQueues,
		RunE: a.Writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.pauseQueues(ctx, d, args, groupName, paused, unseen)
		}),
	}
	cmd.Flags().StringVar(&groupName, "group", "", "only the jobs of this group")
	cmd.Flags().BoolVar(&unseen, "unseen", false, unseenQueue)
	return a.Audited(cmd)
}

func (a app) pauseQueues(ctx context.Context, d *dburl.Database, names []string, group string, paused, unseen bool) error {
	states, err := States(ctx, d)
	if err != nil {
		return err
	}
	if err := a.checkQueues(ctx, d, states, names, group, unseen); err != nil {
		return err
	}
	columns := "QUEUE"
	if group != "" {
		columns = "QUEUE GROUP"
	}
	var targets []queue.Target
	for _, name := range names {
		target := queue.Target{Queue: name}
		if group != "" {
			target = queue.Target{Group: group, InQueue: name}
		}
		targets = append(targets, target)
	}
	return a.Pause(ctx, d, "queues", columns, targets, paused)
}

func queuesOf(states []State) (names []string) {
	for _, s := range states {
		names = append(names, s.Queue)
	}
	return names
}
