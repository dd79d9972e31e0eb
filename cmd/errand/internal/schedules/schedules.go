package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func (a app) schedulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List, run, pause and resume schedules",
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the schedules, with their next ticks",
		Long: `schedules list lists the schedules, with their next ticks: NEXT in the zone of the
schedule, and LOCAL in that of this machine.`,
		Args: cobra.NoArgs,
	}
	payload := list.Flags().Bool("payload", false, "with the payloads and headers of the jobs, in JSON")
	list.RunE = a.Reading(func(ctx context.Context, d *dburl.Database, _ []string) error {
		return a.listSchedules(ctx, d, *payload)
	})
	return cli.Group(cmd, list, a.runScheduleCommand(),
		a.pauseScheduleCommand("pause", "Make some schedules enqueue no more jobs", true),
		a.pauseScheduleCommand("resume", "Let some schedules enqueue jobs again, from their next ticks on", false))
}

func (a app) listSchedules(ctx context.Context, d *dburl.Database, payload bool) error {
	scheduler, err := cli.Need[driver.Scheduler](d)
	if err != nil {
		return err
	}
	list, err := scheduler.Schedules(ctx)
	if err != nil {
		return err
	}
	items := make([]scheduleJSON, len(list))
	for i, s := range list {
		s.Next, s.LastTick, s.UpdatedAt = s.Next.UTC(), s.LastTick.UTC(), s.UpdatedAt.UTC()
		items[i] = scheduleJSON{ScheduleRecord: s, Job: newScheduledJob(s.Job, payload)}
	}
	return cli.Write(a.App, items, func() cli.Table {
		t := cli.Table{Columns: cli.Columns("NAME SPEC ZONE PAUSED NEXT LOCAL KIND QUEUE | LAST_TICK MISSED DECLARED EDITED UPDATED")}
		for _, s := range list {
			t.Add(s.Name, s.Spec, s.Zone, cli.YesNo(s.Paused), timeIn(s.Next, s.Zone), timeIn(s.Next, "Local"), s.Job.Kind, cmp.Or(s.Job.Queue, queue.DefaultQueue),
				timeIn(s.LastTick, s.Zone), string(s.Missed), cli.YesNo(s.Declared), cli.YesNo(s.Edited), cli.TimeText(s.UpdatedAt))
		}
		return t
	})
}

// scheduleJSON is a schedule in the JSON of this program.
type scheduleJSON struct {
	queue.ScheduleRecord
	Job scheduledJob `json:"job"`
}

// scheduledJob is the job that a tick enqueues: the payload and the headers only if asked for.
type scheduledJob struct {
	queue.Job
	Payload *json.RawMessage  `json:"payload,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

func newScheduledJob(job *queue.Job, payload bool) scheduledJob {
	s := scheduledJob{Job: *job}
	if payload {
		s.Payload, s.Headers = &job.Payload, job.Headers
	}
	return s
}

func (a app) pauseScheduleCommand(name, short string, paused bool) *cobra.Command {
	return a.Audited(&cobra.Command{
		Use:               name + " NAME...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteSchedules,
		RunE: a.Writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.pauseSchedules(ctx, d, args, paused)
		}),
	})
}

func (a app) pauseSchedules(ctx context.Context, d *dburl.Database, names []string, paused bool) error {
	scheduler, err := cli.Need[driver.Scheduler](d)
	if err != nil {
		return err
	}
	all, err := scheduler.Schedules(ctx)
	if err != nil {
		return err
	}
	var targets []queue.Target
	for _, name := range names {
		if _, err := find(all, name); err != nil {
			return err
		}
		targets = append(targets, queue.Target{Schedule: name})
	}
	return a.Pause(ctx, d, "schedules", "NAME", targets, paused)
}

// find returns the schedule of that name.
func find(all []queue.ScheduleRecord, name string) (found queue.ScheduleRecord, err error) {
	var seen []string
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		seen = append(seen, s.Name)
	}
	return found, cli.Nothingf("no schedule %s%s", name, cli.DidYouMean(name, seen))
}

// timeIn is [cli.TimeText] in a schedule's zone, or in UTC if this host does not know the zone.
func timeIn(t time.Time, zone string) string {
	place, err := time.LoadLocation(zone)
	if t.IsZero() || err != nil {
		return cli.TimeText(t)
	}
	return t.In(place).Format(time.RFC3339)
}
