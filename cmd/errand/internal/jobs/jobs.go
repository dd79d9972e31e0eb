package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func (a app) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List, show, redrive, cancel, reschedule and delete jobs",
	}
	return cli.Group(cmd, a.listJobsCommand(), a.showJobsCommand(), a.redriveCommand(), a.cancelCommand(), a.rescheduleCommand(), a.deleteCommand())
}

// JSON is a job in the JSON of this program: the payload and the headers only if asked for.
type JSON struct {
	queue.Record
	Payload    *json.RawMessage  `json:"payload,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Unreadable string            `json:"unreadable,omitempty"` // why the payload cannot be read
	Output     *json.RawMessage  `json:"output,omitempty"`
	Progress   *json.RawMessage  `json:"progress,omitempty"`
}

// NewJSON returns a job with its times in UTC.
func NewJSON(r queue.Record, payload bool) JSON {
	for _, t := range []*time.Time{&r.ScheduledAt, &r.CreatedAt, &r.StartedAt, &r.FinishedAt, &r.LockedAt, &r.LeaseEnds, &r.RedrivenAt, &r.CancelAt, &r.UpdatedAt} {
		*t = t.UTC()
	}
	for i := range r.History {
		r.History[i].At = r.History[i].At.UTC()
	}
	j := JSON{Record: r}
	if payload {
		j.Payload, j.Headers = &r.Payload, r.Headers
		if r.Unreadable != nil {
			j.Unreadable, j.Payload = r.Unreadable.Error(), nil
		}
	}
	return j
}

func (a app) listJobsCommand() *cobra.Command {
	var f queue.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long: `jobs list lists jobs, newest first. Payloads and headers are shown only with
--payload. No index serves a list of

  completed jobs
  jobs of any status
  pending jobs by group, attempts or creation

For such a list the command looks at a million jobs at most, and says where to
look further. A list by creation may miss jobs of a transaction that was open
for more than an hour. errand gives no job the status failed: only SQL of other
programs does.`,
		Args: cobra.NoArgs,
		Example: `  errand jobs list --status dead --kind email.welcome
  errand jobs list --status dead --ended-since 30m
  errand jobs list --running-for 10m -o wide`,
	}
	flags := a.filterFlags(cmd, &f, everyStatus)
	flags.Int64Var(&f.Before, "before", 0, "only jobs with a lower `ID`")
	flags.IntVar(&f.Limit, "limit", 50, "how many jobs to list at most")
	payload := flags.Bool("payload", false, "with payloads and headers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Limit < 1 {
			return cli.Usagef("--limit %d: at least 1", f.Limit)
		}
		if err := checkFilter(f, everyStatus); err != nil {
			return err
		}
		return a.Reading(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.listJobs(ctx, d, f, *payload) })(cmd, args)
	}
	return cmd
}

// maxWindows is how many pages jobs list reads for one answer. Each is of up to 50,000 jobs.
const maxWindows = 20

func (a app) listJobs(ctx context.Context, d *dburl.Database, f queue.Filter, payload bool) error {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	list, next, err := find(ctx, inspector.Jobs, f, maxWindows)
	switch {
	case err != nil && next != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.Notef("%v are over: listed %d, and there may be more: --before %d goes on", a.Timeout, len(list), next)
	case err != nil:
		return err
	case next != 0:
		a.Notef("listed %d, and there may be more: --before %d goes on", len(list), next)
	}
	jobs := make([]JSON, len(list))
	for i, r := range list {
		jobs[i] = NewJSON(r, payload)
	}
	return cli.Write(a.App, jobs, func() cli.Table { return jobTable(list, payload) })
}

func jobTable(list []queue.Record, payload bool) cli.Table {
	more := ""
	if payload {
		more = " PAYLOAD HEADERS"
	}
	t := cli.Table{Columns: cli.Columns("ID STATUS QUEUE KIND ATTEMPTS SCHEDULED" + more + " LAST_ERROR" +
		"| GROUP KEY PRIORITY COST WORKER CREATED STARTED FINISHED LEASE_ENDS REDRIVES")}
	for _, r := range list {
		row := []string{strconv.FormatInt(r.ID, 10), string(r.Status), r.Queue, r.Kind, AttemptText(r), cli.TimeText(r.ScheduledAt)}
		if payload {
			row = append(row, payloadText(r), headerText(r.Headers))
		}
		row = append(row, r.LastError, r.Group, r.Key, strconv.Itoa(int(r.Priority)), strconv.Itoa(cmp.Or(r.Cost, 1)), r.Worker,
			cli.TimeText(r.CreatedAt), cli.TimeText(r.StartedAt), cli.TimeText(r.FinishedAt), cli.TimeText(r.LeaseEnds), strconv.Itoa(r.Redrives))
		t.Add(row...)
	}
	return t
}

// AttemptText returns how many of its attempts a job has used: "2/5".
func AttemptText(r queue.Record) string { return fmt.Sprintf("%d/%d", r.Attempt, r.MaxAttempts) }

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

// everyStatus are the Statuses and failed, which errand itself sets on no job.
var everyStatus = append(cli.Statuses[:len(cli.Statuses):len(cli.Statuses)], queue.StatusFailed)
