package queues

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// moveAction is the audit log's name for a step of a move.
const moveAction = "queues.move"

// moveOutcome is the answer of a move.
type moveOutcome struct {
	Moved int `json:"moved"`
}

func (a app) moveQueueCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "move QUEUE --to URL",
		Short: "Move the live jobs of a queue to another database",
		Long: `queues move moves the pending jobs of a queue to another database, until the queue
has no more pending or running jobs. First deploy programs that enqueue and work
in the new database: a route of backend/router. Programs of the old database may go
on meanwhile: the jobs that they enqueue are moved, too. Each job runs in one of
the databases.

In the old database remain:

  running jobs, until they have ended
  jobs that have ended, and held jobs
  rules and schedules: set them in the new database

After an interrupted move, call queues move again within 24 hours. Until then the
jobs that were about to be moved wait in the queue errand-moving-QUEUE. A queue with
ordered jobs has to be paused in both databases, and must have no running job.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteQueues,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usagef("--to is missing: the URL of the new database")
			}
			return a.Working(func(ctx context.Context, d *dburl.Database, args []string) error {
				return a.moveQueue(ctx, d, args[0], to)
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the new database's `URL`")
	return a.Audited(cmd)
}

func (a app) moveQueue(ctx context.Context, d *dburl.Database, name, url string) error {
	if err := driver.CheckQueue(transitPrefix + name); err != nil {
		return err
	}
	target, err := a.OpenSecond(ctx, d, url)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer target.Close()
	a.Notef("to %s", target.Description)
	m, err := a.newMover(d, target, name)
	if err != nil {
		return err
	}
	if err := a.beginMove(ctx, d, target, name); err != nil {
		return err
	}
	return a.moveAll(ctx, d, m)
}

// newMover returns what moves the queue.
func (a app) newMover(d, target *dburl.Database, name string) (*mover, error) {
	from, err := cli.Need[interface {
		driver.Inspector
		driver.Editor
	}](d)
	if err != nil {
		return nil, err
	}
	change, err := changeQueue(d)
	if err != nil {
		return nil, err
	}
	receiver, err := cli.Need[driver.Receiver](target)
	if err != nil {
		return nil, err
	}
	return &mover{
		name: name, from: from, to: receiver, moved: func(int) {},
		setAside: func(ctx context.Context, which queue.Selection, to string) (n int, err error) {
			err = a.Act(ctx, d, moveEntry(name, ""), func(db queue.DB, entry *queue.AuditEntry) error {
				n, err = change(ctx, db, which, to)
				entry.Count = int64(n)
				return err
			})
			return n, err
		},
		step:    func(ctx context.Context, f func(context.Context) error) error { return a.Step(ctx, d, f) },
		ordered: func(ctx context.Context) error { return a.checkOrderedMove(ctx, d, target, name) },
	}, nil
}

// aside is a backend whose jobs cannot leave for any other queue: a partition of Redis.
type aside interface {
	SetAside(ctx context.Context, which queue.Selection, to string) (n int, err error)
}

// changeQueue returns what gives pending jobs to another queue.
func changeQueue(d *dburl.Database) (func(ctx context.Context, db queue.DB, which queue.Selection, to string) (int, error), error) {
	if q, ok := driver.As[aside](d.Queue); ok {
		return func(ctx context.Context, _ queue.DB, which queue.Selection, to string) (int, error) {
			return q.SetAside(ctx, which, to)
		}, nil
	}
	editor, err := cli.Need[driver.Editor](d)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, db queue.DB, which queue.Selection, to string) (int, error) {
		return editor.Edit(ctx, db, which, queue.JobChange{Queue: to})
	}, nil
}

func moveEntry(name, token string) queue.AuditEntry {
	return queue.AuditEntry{Action: moveAction, Selection: "queue=" + name + token}
}

// beginMove writes to the audit log of the old database that a move begins. It returns an error if
// the new database has that entry as well: then they are one.
func (a app) beginMove(ctx context.Context, d, target *dburl.Database, name string) error {
	entry := moveEntry(name, " begin="+rand.Text())
	if err := a.Step(ctx, d, func(ctx context.Context) error {
		return a.Act(ctx, d, entry, func(queue.DB, *queue.AuditEntry) error { return nil })
	}); err != nil {
		return err
	}
	auditor, ok := driver.As[driver.Auditor](target.Queue)
	if !ok {
		return a.checkOther(ctx, d, target, name)
	}
	return a.Step(ctx, target, func(ctx context.Context) error {
		page, _, err := auditor.AuditLog(ctx, queue.AuditFilter{Action: moveAction})
		if slices.ContainsFunc(page, func(e queue.AuditEntry) bool { return e.Selection == entry.Selection }) {
			return cli.Refusedf("--to is the database that the queue is in")
		}
		return err
	})
}

// checkOther returns an error if the new database has a job that the old one has: then they are
// one.
func (a app) checkOther(ctx context.Context, d, target *dburl.Database, name string) error {
	from, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	to, err := cli.Need[driver.Inspector](target)
	if err != nil {
		return err
	}
	return a.Step(ctx, target, func(ctx context.Context) error {
		page, _, err := from.Jobs(ctx, queue.Filter{Queue: name, Limit: 10, Bare: true})
		if err != nil {
			return err
		}
		for _, r := range page {
			same, ok, err := to.Job(ctx, r.ID)
			if err != nil {
				return err
			}
			if ok && same.Queue == r.Queue && same.Kind == r.Kind && same.CreatedAt.Equal(r.CreatedAt) {
				return cli.Refusedf("--to is the database that the queue is in")
			}
		}
		return nil
	})
}

// checkOrderedMove returns an error if ordered jobs may overtake each other on the way.
func (a app) checkOrderedMove(ctx context.Context, d, target *dburl.Database, name string) error {
	for _, one := range []*dburl.Database{d, target} {
		ruler, err := cli.Need[driver.Ruler](one)
		if err != nil {
			return err
		}
		rules, err := ruler.Rules(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(rules, func(r queue.Rule) bool { return r.Queue == name && r.Group == "" && r.Paused }) {
			return cli.Refusedf("queue %s has ordered jobs: pause it in both databases first (errand queues pause %s; in the new one with --unseen), and resume it there afterwards",
				name, name)
		}
	}
	live, err := liveJobs(ctx, d, name)
	if n := live[queue.StatusRunning] + live[queue.StatusHeld]; err == nil && n > 0 {
		return cli.Refusedf("queue %s has ordered jobs, and %d of its jobs run or are held: wait until they have ended", name, n)
	}
	return err
}

// liveJobs returns how many jobs of a queue have each status.
func liveJobs(ctx context.Context, d *dburl.Database, name string) (map[queue.Status]int64, error) {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return nil, err
	}
	counts, err := inspector.Counts(ctx)
	live := make(map[queue.Status]int64)
	for _, c := range counts {
		if c.Queue == name {
			live[c.Status] = c.Jobs
		}
	}
	return live, err
}

// movePause is how long a move waits for jobs that run before it looks again.
const movePause = time.Second

// moveAll moves until nothing is left that may run.
func (a app) moveAll(ctx context.Context, d *dburl.Database, m *mover) error {
	total, told := 0, int64(-1)
	m.moved = func(n int) { total += n }
	for {
		if err := m.pass(ctx); err != nil {
			a.Notef("%d jobs moved", total)
			return err
		}
		var live map[queue.Status]int64
		err := a.Step(ctx, d, func(ctx context.Context) (err error) {
			live, err = liveJobs(ctx, d, m.name)
			return err
		})
		if err != nil {
			return err
		}
		runs := live[queue.StatusRunning]
		if runs+live[queue.StatusPending] == 0 {
			return a.endMove(total, live[queue.StatusHeld])
		}
		if runs != told {
			a.Notef("%d jobs moved; %d still run where they are, waiting for them", total, runs)
			told = runs
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(movePause):
		}
	}
}

// endMove writes the answer of a move.
func (a app) endMove(total int, held int64) error {
	if err := a.WriteOne(moveOutcome{total}, cli.CountText(total, "job")+" moved"); err != nil {
		return err
	}
	if held > 0 {
		return cli.Refusedf("%d held jobs stay: redrive or cancel them, and move again", held)
	}
	return nil
}
