package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// selection is which jobs an operation is for: IDs, or a filter.
type selection struct {
	ids    []int64
	filter queue.Filter
	max    int
	yes    bool
	dryRun bool
}

// outcome is what an operation tells.
type outcome struct {
	Selected int `json:"selected"`
	Changed  int `json:"changed"`
}

// maxNamed is how many jobs may be named by ID without a question.
const maxNamed = 100

// operationCommand adds the flags of an operation to its command.
func (a *app) operationCommand(cmd *cobra.Command, op *operation) *cobra.Command {
	var s selection
	cmd.Long += `

Jobs are named by their IDs, or chosen by filters. For filters it shows how many
jobs they choose, and ten of them, and asks for the number. Exactly those jobs
are changed, and none that comes later. Without a terminal give --yes and --max.`
	flags := a.filterFlags(cmd, &s.filter)
	flags.IntVar(&s.max, "max", 10_000, "refuse if the filters choose more than `N` jobs")
	flags.BoolVar(&s.yes, "yes", false, "do not ask; needs --max")
	flags.BoolVar(&s.dryRun, "dry-run", false, "only show which jobs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if s.ids, err = parseIDs(args); err != nil {
			return err
		}
		if err := s.check(op, flags.Changed("max")); err != nil {
			return err
		}
		return a.writing(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.operate(ctx, d, op, s) })(cmd, args)
	}
	return a.audited(cmd)
}

// check returns an error if it is not clear which jobs are meant.
func (s selection) check(op *operation, hasMax bool) error {
	var zero queue.Filter
	switch {
	case len(s.ids) > 0 && s.filter != zero:
		return usagef("IDs and filters: give one of them")
	case len(s.ids) > maxNamed:
		return usagef("%d IDs: at most %d", len(s.ids), maxNamed)
	case len(s.ids) > 0:
		return nil
	case s.filter.Queue == "" && s.filter.Kind == "" && s.filter.Group == "" && s.filter.Key == "":
		return usagef("which jobs? Give IDs, or at least one of --queue, --kind, --group and --key")
	case s.filter.Status != "" && !slices.Contains(op.statuses, s.filter.Status):
		return usagef("--status %s: %s acts on %s", s.filter.Status, op.name, joinStatuses(op.statuses))
	case s.max < 1:
		return usagef("--max %d: at least 1", s.max)
	case s.yes && !hasMax:
		return usagef("--yes needs --max: how many jobs at most")
	}
	return checkFilter(s.filter)
}

func joinStatuses(list []queue.Status) string {
	var b strings.Builder
	for i, s := range list {
		switch {
		case i > 0 && i == len(list)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String() + " jobs"
}

func (a *app) operate(ctx context.Context, d *dburl.Database, op *operation, s selection) error {
	inspector, err := need[queue.Inspector](d)
	if err != nil {
		return err
	}
	if len(s.ids) > 0 {
		return a.operateNamed(ctx, d, inspector, op, s)
	}
	jobs, err := a.choose(ctx, inspector, op, s)
	if err != nil {
		return err
	}
	shown, err := a.details(ctx, inspector, jobs[:min(len(jobs), examples)])
	if err != nil {
		return err
	}
	if err := a.confirm(ctx, op, s, shown, len(jobs)); err != nil {
		return err
	}
	if s.dryRun {
		return nil
	}
	done, err := a.change(ctx, d, op, s, jobs)
	if err != nil {
		return fmt.Errorf("%d of %d jobs %s, then: %w", done, len(jobs), op.past, err)
	}
	return a.report(op, outcome{len(jobs), done})
}

func (a *app) report(op *operation, o outcome) error {
	if o.Changed == 0 {
		return refusedf("no job %s: all have changed since they were chosen, or live jobs have their keys", op.past)
	}
	text := fmt.Sprintf("%d of %d jobs %s", o.Changed, o.Selected, op.past)
	return a.writeOne(o, text)
}

// operateNamed acts on the jobs with the given IDs, and tells of each that it cannot act on.
func (a *app) operateNamed(ctx context.Context, d *dburl.Database, inspector queue.Inspector, op *operation, s selection) error {
	var jobs []queue.Record
	missing, refused := 0, 0
	for _, id := range s.ids {
		r, ok, err := inspector.Job(ctx, id)
		switch {
		case err != nil:
			return err
		case !ok:
			missing++
			a.notef("no job %d", id)
		case !slices.Contains(op.statuses, r.Status):
			refused++
			a.notef("job %d is %s: %s acts on %s", id, r.Status, op.name, joinStatuses(op.statuses))
		default:
			jobs = append(jobs, r)
		}
	}
	if s.dryRun {
		return a.writeTable(jobTable(jobs, false))
	}
	done, err := a.change(ctx, d, op, s, jobs)
	switch {
	case err != nil:
		return err
	case done == 0 && missing > 0 && refused == 0 && len(jobs) == 0:
		return nothingf("no job %s", op.past)
	}
	if err := a.report(op, outcome{len(s.ids), done}); err != nil {
		return err
	}
	if done < len(s.ids) {
		return refusedf("not all jobs %s", op.past)
	}
	return nil
}

// choose lists the jobs that the filters choose, at most s.max of them.
func (a *app) choose(ctx context.Context, inspector queue.Inspector, op *operation, s selection) (jobs []queue.Record, err error) {
	list := op.usual
	if s.filter.Status != "" {
		list = []queue.Status{s.filter.Status}
	}
	for _, status := range list {
		f := s.filter
		f.Status, f.Limit, f.Bare = status, s.max+1-len(jobs), f.Key == ""
		if f.Expired || f.RunningFor > 0 {
			if status != queue.StatusRunning {
				continue
			}
		}
		found, next, err := a.find(ctx, inspector, f, 1<<20)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, found...)
		if len(jobs) > s.max || next != 0 {
			return nil, refusedf("more than %d jobs: narrow the filters, or raise --max", s.max)
		}
	}
	if len(jobs) == 0 {
		return nil, nothingf("no %s matches", strings.TrimSuffix(joinStatuses(list), "s"))
	}
	slices.SortFunc(jobs, func(a, b queue.Record) int { return cmp.Compare(b.ID, a.ID) })
	return jobs, nil
}

// examples is how many of the chosen jobs are shown.
const examples = 10

// details reads jobs that were listed bare. It leaves out those that are gone meanwhile.
func (a *app) details(ctx context.Context, inspector queue.Inspector, jobs []queue.Record) (list []queue.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for _, r := range jobs {
		r, ok, err := inspector.Job(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, r)
		}
	}
	return list, nil
}

// confirm shows some of the n chosen jobs, and asks for n.
func (a *app) confirm(ctx context.Context, op *operation, s selection, shown []queue.Record, n int) error {
	out := a.out
	a.out = a.err // standard output has the result alone
	format := a.format
	a.format = "table"
	err := a.writeTable(jobTable(shown, false))
	a.out, a.format = out, format
	if err != nil {
		return err
	}
	if n > len(shown) {
		fmt.Fprintf(a.err, "and %d more\n", n-len(shown))
	}
	fmt.Fprintf(a.err, "%s: %d jobs with %s\n", op.name, n, escape(s.text()))
	if s.yes || s.dryRun {
		return nil
	}
	if _, ok := terminal(a.in); !ok {
		return refusedf("nobody to ask: without a terminal give --yes and --max")
	}
	fmt.Fprintf(a.err, "type the number of jobs to go on: ")
	line, err := a.readLine(ctx)
	if err != nil {
		return err
	}
	if line != strconv.Itoa(n) {
		return refusedf("not confirmed, nothing was changed")
	}
	return nil
}

// readLine reads a line of standard input, until ctx ends.
func (a *app) readLine(ctx context.Context) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// text returns what was chosen, such as "kind=email.welcome group=acme".
func (s selection) text() string {
	f := s.filter
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	for _, id := range s.ids {
		add("id", strconv.FormatInt(id, 10))
	}
	add("queue", f.Queue)
	add("kind", f.Kind)
	add("status", string(f.Status))
	add("key", f.Key)
	add("group", f.Group)
	if f.MinAttempts > 0 {
		add("min-attempts", strconv.Itoa(f.MinAttempts))
	}
	if f.Expired {
		add("expired", "true")
	}
	if f.RunningFor > 0 {
		add("running-for", f.RunningFor.String())
	}
	return strings.Join(parts, " ")
}

const (
	batch         = 1000
	progressAfter = 2 * time.Second
)

// changeBatch runs the operation on some jobs, in a transaction with its entry in the audit log.
func (a *app) changeBatch(ctx context.Context, d *dburl.Database, op *operation, s selection, which queue.Which) (n int, err error) {
	entry := queue.AuditEntry{Action: "jobs." + op.name, Selection: s.text()}
	if len(which.IDs) == 1 {
		entry.JobID = which.IDs[0]
	}
	err = a.act(ctx, d, entry, func(db queue.DB, entry *queue.AuditEntry) (err error) {
		n, err = op.change(ctx, d, db, which)
		entry.Count = int64(n)
		return err
	})
	if err != nil {
		return 0, err // nothing of it was committed
	}
	return n, nil
}

// change runs the operation on the jobs, a batch of one status a transaction.
func (a *app) change(ctx context.Context, d *dburl.Database, op *operation, s selection, jobs []queue.Record) (done int, err error) {
	began := time.Now()
	for _, status := range op.statuses {
		var ids []int64
		for _, r := range jobs {
			if r.Status == status {
				ids = append(ids, r.ID)
			}
		}
		for part := range slices.Chunk(ids, batch) {
			n, err := a.changeBatch(ctx, d, op, s, queue.Which{IDs: part, Status: status})
			if err != nil {
				return done, err
			}
			done += n
			if _, ok := terminal(a.err); ok && time.Since(began) > progressAfter {
				fmt.Fprintf(a.err, "\r%d of %d ", done, len(jobs))
			}
		}
	}
	return done, nil
}
