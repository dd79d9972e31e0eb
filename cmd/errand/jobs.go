package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

func (a *app) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List, show, retry, cancel, reschedule and delete jobs",
	}
	return group(cmd, a.listJobsCommand(), a.showJobsCommand(), a.retryCommand(), a.cancelCommand(), a.rescheduleCommand(), a.deleteCommand())
}

// jobJSON is a job in the JSON of this program: the payload and the headers only if asked for.
type jobJSON struct {
	queue.Record
	Payload    *json.RawMessage  `json:"payload,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Unreadable string            `json:"unreadable,omitempty"` // why the payload cannot be read
	Output     *json.RawMessage  `json:"output,omitempty"`
	Progress   *json.RawMessage  `json:"progress,omitempty"`
}

func newJobJSON(r queue.Record, payload bool) jobJSON {
	for _, t := range []*time.Time{&r.ScheduledAt, &r.CreatedAt, &r.StartedAt, &r.FinishedAt, &r.LockedAt, &r.LeaseEnds, &r.RedrivenAt, &r.CancelAt, &r.UpdatedAt} {
		*t = t.UTC()
	}
	for i := range r.History {
		r.History[i].At = r.History[i].At.UTC()
	}
	j := jobJSON{Record: r}
	if payload {
		j.Payload, j.Headers = &r.Payload, r.Headers
		if r.Unreadable != nil {
			j.Unreadable, j.Payload = r.Unreadable.Error(), nil
		}
	}
	return j
}

// filterFlags adds the flags that choose jobs.
func (a *app) filterFlags(cmd *cobra.Command, f *queue.Filter) *pflag.FlagSet {
	flags := cmd.Flags()
	flags.StringVar(&f.Queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.Kind, "kind", "", "only jobs of this kind")
	flags.StringVar((*string)(&f.Status), "status", "", "only jobs with this status")
	flags.StringVar(&f.Key, "key", "", "only jobs with this key")
	flags.StringVar(&f.Group, "group", "", "only jobs of this group")
	flags.IntVar(&f.MinAttempts, "min-attempts", 0, "only jobs that have been run so often")
	flags.BoolVar(&f.Expired, "expired", false, "only running jobs whose lease has expired")
	flags.DurationVar(&f.RunningFor, "running-for", 0, "only jobs that have been running for so long")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.completeQueues)
	_ = cmd.RegisterFlagCompletionFunc("kind", a.completeKinds)
	var all []string
	for _, s := range statuses {
		all = append(all, string(s))
	}
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
	return flags
}

// checkFilter checks all but the Limit, which find keeps.
func checkFilter(f queue.Filter) error {
	f.Limit = 0
	_, err := f.Checked()
	return err
}

func (a *app) listJobsCommand() *cobra.Command {
	var f queue.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long: `jobs list lists jobs, newest first. Completed jobs, and jobs of any status, have
no index: it looks at the newest million jobs at most, and says where to look
further. Payloads and headers are shown only with --payload.`,
		Args: cobra.NoArgs,
		Example: `  errand jobs list --status dead --kind email.welcome
  errand jobs list --running-for 10m -o wide`,
	}
	flags := a.filterFlags(cmd, &f)
	flags.Int64Var(&f.Before, "before", 0, "only jobs with a lower `ID`")
	flags.IntVar(&f.Limit, "limit", 50, "how many jobs to list at most")
	payload := flags.Bool("payload", false, "with payloads and headers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Limit < 1 {
			return usagef("--limit %d: at least 1", f.Limit)
		}
		if err := checkFilter(f); err != nil {
			return err
		}
		return a.reading(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.listJobs(ctx, d, f, *payload) })(cmd, args)
	}
	return cmd
}

// maxWindows is how many pages jobs list reads for one answer. Each is of up to 50,000 jobs.
const maxWindows = 20

func (a *app) listJobs(ctx context.Context, d *dburl.Database, f queue.Filter, payload bool) error {
	inspector, err := need[queue.Inspector](d)
	if err != nil {
		return err
	}
	list, next, err := a.find(ctx, inspector, f, maxWindows)
	if err != nil {
		return err
	}
	if next != 0 {
		a.notef("listed %d, and there may be more: --before %d goes on", len(list), next)
	}
	jobs := make([]jobJSON, len(list))
	for i, r := range list {
		jobs[i] = newJobJSON(r, payload)
	}
	return write(a, jobs, func() table { return jobTable(list, payload) })
}

// find lists up to f.Limit jobs, from several pages if needed, but not from more than so many
// windows. next is the Before of what follows, or 0.
func (a *app) find(ctx context.Context, inspector queue.Inspector, f queue.Filter, windows int) (list []queue.Record, next int64, err error) {
	want := f.Limit
	for range windows {
		f.Limit = min(want-len(list), 1000)
		page, next, err := a.page(ctx, inspector, f)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, page...)
		if next == 0 || len(list) == want {
			return list, next, nil
		}
		f.Before = next
	}
	return list, f.Before, nil
}

// page reads one page, in at most the time of --timeout.
func (a *app) page(ctx context.Context, inspector queue.Inspector, f queue.Filter) ([]queue.Record, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return inspector.Jobs(ctx, f)
}

func jobTable(list []queue.Record, payload bool) table {
	more := ""
	if payload {
		more = " PAYLOAD HEADERS"
	}
	t := table{columns: columns("ID STATUS QUEUE KIND ATTEMPTS SCHEDULED" + more + " LAST_ERROR" +
		"| GROUP KEY PRIORITY COST WORKER CREATED STARTED FINISHED LEASE_ENDS REDRIVES")}
	for _, r := range list {
		row := []string{strconv.FormatInt(r.ID, 10), string(r.Status), r.Queue, r.Kind, attemptText(r), timeText(r.ScheduledAt)}
		if payload {
			row = append(row, payloadText(r), headerText(r.Headers))
		}
		row = append(row, r.LastError, r.Group, r.Key, strconv.Itoa(int(r.Priority)), strconv.Itoa(cmp.Or(r.Cost, 1)), r.Worker,
			timeText(r.CreatedAt), timeText(r.StartedAt), timeText(r.FinishedAt), timeText(r.LeaseEnds), strconv.Itoa(r.Redrives))
		t.add(row...)
	}
	return t
}

func attemptText(r queue.Record) string { return fmt.Sprintf("%d/%d", r.Attempt, r.MaxAttempts) }

func payloadText(r queue.Record) string {
	if r.Unreadable != nil {
		return "unreadable: " + r.Unreadable.Error()
	}
	return string(r.Payload)
}

func headerText(headers map[string]string) string {
	if len(headers) == 0 {
		return ""
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
