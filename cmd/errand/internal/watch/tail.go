package watch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// change is what errand tail tells of a job.
type change struct {
	At      time.Time `json:"at"` // when it was seen, by the local clock
	What    string    `json:"what"`
	ID      int64     `json:"id"`
	Queue   string    `json:"queue"`
	Kind    string    `json:"kind"`
	Attempt int       `json:"attempt"`
	Worker  string    `json:"worker,omitempty"`
	Error   string    `json:"error,omitempty"`
}

func (a app) tailCommand() *cobra.Command {
	var f queue.Filter
	every := time.Second
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print each change of jobs, until interrupted",
		Long: `tail looks once a second at the newest, the running and the cancelled jobs, and
prints a line for each job that was enqueued, started or cancelled, and for each
run that has ended. It needs no LISTEN. It misses:

  a run of an older job that begins and ends between two looks
  a job whose transaction commits after the transaction of a later job
  the oldest of more than a thousand new jobs in a second`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.Queue, "queue", "", "only jobs of this queue")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "only jobs of this kind")
	cmd.Flags().DurationVar(&every, "every", every, "how often to look")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.CompleteQueues)
	_ = cmd.RegisterFlagCompletionFunc("kind", a.CompleteKinds)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if every < 100*time.Millisecond {
			return cli.Usagef("--every %v: at least 100ms", every)
		}
		return a.Watching(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.tail(ctx, d, f, every) })(cmd, args)
	}
	return cmd
}

func (a app) tail(ctx context.Context, d *dburl.Database, f queue.Filter, every time.Duration) error {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	w := watch{inspector: inspector, filter: f}
	for {
		began := time.Now()
		var changes []change
		err := a.Step(ctx, d, func(ctx context.Context) (err error) {
			changes, err = w.look(ctx)
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range changes {
			if err := a.writeChange(c); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(every, 20*time.Since(began))): // watching costs the database little
		}
	}
}

func (a app) writeChange(c change) error {
	if !a.IsTable() {
		return a.WriteJSON(c, "")
	}
	text := fmt.Sprintf("%s  %-9s  %d  %s  %s", cli.TimeText(c.At), c.What, c.ID, plain.Line(c.Queue), plain.Line(c.Kind))
	if c.Attempt > 0 {
		text += fmt.Sprintf("  attempt %d", c.Attempt)
	}
	if c.Worker != "" {
		text += "  " + plain.Line(c.Worker)
	}
	if c.Error != "" {
		text += "  " + plain.Line(c.Error)
	}
	_, err := fmt.Fprintln(a.Out, cli.CutLine(text, a.Columns()))
	return err
}

// watch remembers the jobs of its last look.
type watch struct {
	inspector driver.Inspector
	filter    queue.Filter
	hasLooked bool
	newest    int64                  // the highest ID seen
	running   map[int64]queue.Record // the jobs that ran at the last look
	cancelled map[int64]time.Time    // when each job was cancelled that the last look has found
}

const (
	maxLook = 1000
	// maxSkew is how far the clock of this machine may be ahead of the database's clock: each look
	// lists the jobs that were cancelled in this time.
	maxSkew = 5 * time.Minute
)

// look returns what has changed since the last call, in the order of the IDs. The first call
// returns nothing.
func (w *watch) look(ctx context.Context) (changes []change, err error) {
	f := w.filter
	f.Bare, f.Limit = true, maxLook
	if !w.hasLooked {
		f.Limit = 1
	}
	newest, _, err := w.inspector.Jobs(ctx, f)
	if err != nil {
		return nil, err
	}
	f.Status, f.Limit = queue.StatusRunning, maxLook
	run, _, err := w.inspector.Jobs(ctx, f)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	f.Status, f.FinishedFrom = queue.StatusCancelled, now.Add(-maxSkew)
	cancels, _, err := w.inspector.Jobs(ctx, f)
	if err != nil {
		return nil, err
	}
	running := make(map[int64]queue.Record, len(run))
	for _, r := range run {
		running[r.ID] = r
	}
	if w.hasLooked {
		for _, r := range slices.Backward(newest) {
			if r.ID > w.newest {
				changes = append(changes, changeOf(now, "enqueued", r))
			}
		}
		ends, err := w.ends(ctx, now, newest, running)
		if err != nil {
			return nil, err
		}
		changes = append(changes, ends...)
		changes = append(changes, w.newlyCancelled(now, cancels, ends)...)
		for _, r := range slices.Backward(run) {
			if before, ok := w.running[r.ID]; !ok || before.Fence != r.Fence {
				changes = append(changes, changeOf(now, "started", r))
			}
		}
	}
	w.hasLooked, w.running, w.cancelled = true, running, make(map[int64]time.Time, len(cancels))
	for _, r := range cancels {
		w.cancelled[r.ID] = r.FinishedAt
	}
	if len(newest) > 0 {
		w.newest = max(w.newest, newest[0].ID)
	}
	return changes, nil
}

// ends returns a change for each job that ran at the last look and does not run now, and for each
// new job that has ended already.
func (w *watch) ends(ctx context.Context, now time.Time, newest []queue.Record, running map[int64]queue.Record) (changes []change, err error) {
	for _, r := range slices.Backward(newest) {
		if r.ID > w.newest && r.Attempt > 0 && r.Status != queue.StatusRunning {
			w.running[r.ID] = r
		}
	}
	var ids []int64
	for id := range w.running {
		if r, ok := running[id]; !ok || r.Fence != w.running[id].Fence {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		before := w.running[id]
		r, ok, err := w.inspector.Job(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			changes = append(changes, changeOf(now, "deleted", before)) // done, and not kept
		case r.Status == queue.StatusPending || r.Status == queue.StatusRunning:
			changes = append(changes, changeOf(now, "returned", r)) // failed, released or reclaimed
		default:
			changes = append(changes, changeOf(now, string(r.Status), r))
		}
	}
	return changes, nil
}

// newlyCancelled returns the jobs that the last look has not found cancelled, without the jobs of
// ends.
func (w *watch) newlyCancelled(now time.Time, cancels []queue.Record, ends []change) (changes []change) {
	for _, r := range slices.Backward(cancels) {
		isKnown := slices.ContainsFunc(ends, func(c change) bool { return c.ID == r.ID })
		if at, ok := w.cancelled[r.ID]; !isKnown && (!ok || !at.Equal(r.FinishedAt)) {
			changes = append(changes, changeOf(now, "cancelled", r))
		}
	}
	return changes
}

func changeOf(at time.Time, what string, r queue.Record) change {
	c := change{At: at, What: what, ID: r.ID, Queue: r.Queue, Kind: r.Kind, Attempt: r.Attempt}
	switch what {
	case "enqueued":
		c.Attempt = 0 // it has begun since
	case "started":
		c.Worker = r.Worker
	case "returned", "dead", "held", "cancelled":
		c.Error = r.LastError
	}
	return c
}
