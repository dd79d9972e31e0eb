package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// enqueued is what errand enqueue tells.
type enqueued struct {
	ID        int64  `json:"id"`
	Queue     string `json:"queue"`
	Kind      string `json:"kind"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Replaced  bool   `json:"replaced,omitempty"`
}

func (a app) enqueueCommand() *cobra.Command {
	job := &queue.Job{}
	var at, payload string
	var replace bool
	var bulk bulkFlags
	cmd := &cobra.Command{
		Use:   "enqueue KIND [JSON|-|@FILE] | enqueue --file FILE",
		Short: "Enqueue a job, or a file of jobs",
		Long: `enqueue writes one job and prints its ID. The second argument is the payload as
JSON; @FILE reads the payload from a file, and - from standard input. Without a
second argument the payload is null. If a live job of the queue has the same
--key, enqueue writes nothing and prints the ID of the live job.

With --file, enqueue writes a job for each line of a file, which has it as a JSON
object. Fields: kind, and if need be queue, payload, priority, scheduled_at (RFC
3339), delay_ns, max_attempts, key, on_duplicate ("replace"), max_delay_ns, group,
ordered, cost, headers. All lines are checked first, and if one is bad nothing is
written. If the command is interrupted or killed, repeat it within 23 hours: it goes
on, and no job is left out or enqueued twice. For that it keeps its state in
FILE.errand-state, which it deletes at the end; then the same FILE is a new import.
Lines that the database refuses are named, and all others are written.

The middleware of your programs does not see the job. So the payload is not
encrypted, and if the workers take encrypted jobs only, the job is dead at its
first run.`,
		Args:              func(cmd *cobra.Command, args []string) error { return enqueueArgs(cmd, args, bulk) },
		ValidArgsFunction: cli.FirstArg(a.CompleteKinds),
		Example: `  errand enqueue email.welcome '{"user": 42}' --key user-42 --delay 10m
  errand enqueue report.build @args.json --queue slow
  errand enqueue --file jobs.jsonl --dry-run
  errand enqueue --file jobs.jsonl
  zcat jobs.jsonl.gz | errand enqueue --file - --state jobs.state`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if bulk.file != "" {
			return a.runBulk(cmd, bulk)
		}
		job.Kind = args[0]
		if len(args) == 2 {
			payload = args[1]
		}
		if err := a.fill(job, payload, at, replace); err != nil {
			return err
		}
		return a.Writing(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.enqueue(ctx, d, job) })(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&job.Queue, "queue", queue.DefaultQueue, "the job's queue")
	flags.Int32Var(&job.Priority, "priority", 0, "the job's priority; a lower number runs first")
	flags.DurationVar(&job.Delay, "delay", 0, "how long until the job is due")
	flags.StringVar(&at, "at", "", "when the job is due, as RFC 3339 `time`")
	flags.IntVar(&job.MaxAttempts, "max-attempts", queue.DefaultMaxAttempts, "how many attempts the job has")
	flags.StringVar(&job.Key, "key", "", "unique among the live jobs of the queue")
	flags.BoolVar(&replace, "replace", false, "take the place of the live job that has the key")
	flags.StringVar(&job.Group, "group", "", "the group of the job, such as its tenant")
	flags.BoolVar(&job.Ordered, "ordered", false, "run the jobs of the group one at a time")
	flags.IntVar(&job.Cost, "cost", 0, "how many tokens of a rate the job takes")
	flags.StringToStringVar(&job.Headers, "header", nil, "a header, as `name=value`; may be repeated")
	flags.Lookup("header").DefValue = "" // instead of []
	bulk.define(cmd)
	_ = cmd.RegisterFlagCompletionFunc("queue", a.CompleteQueues)
	return cmd
}

// enqueueArgs checks how many arguments there are.
func enqueueArgs(cmd *cobra.Command, args []string, bulk bulkFlags) error {
	if bulk.file != "" {
		return bulk.checkAlone(cmd, args)
	}
	for _, name := range bulkNames[1:] {
		if cmd.Flags().Changed(name) {
			return cli.Usagef("--%s is for --file", name)
		}
	}
	if len(args) == 0 {
		return cli.Usagef(`which kind of job? For example: errand enqueue email.welcome '{"user": 42}'`)
	}
	return cobra.MaximumNArgs(2)(cmd, args)
}

// fill completes the job, and checks it.
func (a app) fill(job *queue.Job, payload, at string, replace bool) (err error) {
	if job.Payload, err = a.payload(payload); err != nil {
		return err
	}
	if job.ScheduledAt, err = parseTime("--at", at); err != nil {
		return err
	}
	if replace {
		job.OnDuplicate = queue.Replace
	}
	return job.Check(0)
}

// payload returns the JSON that an argument names.
func (a app) payload(arg string) (json.RawMessage, error) {
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		text, err := io.ReadAll(io.LimitReader(a.In, maxInput))
		return text, err
	case strings.HasPrefix(arg, "@"):
		f, err := os.Open(arg[1:])
		if err != nil {
			return nil, cli.Usagef("the payload: %v", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxInput))
		return text, err
	}
	return json.RawMessage(arg), nil
}

// maxInput is more than any payload may have. Job.Check refuses what is longer.
const maxInput = queue.DefaultMaxPayload + 1

// parseTime reads the time of a flag; "" is the zero time.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, cli.Usagef("%s %q: not RFC 3339, such as 2026-01-31T15:00:00Z", flag, text)
	}
	if err := cli.CheckYear(t.UTC()); err != nil {
		return t, cli.Usagef("%s %q: %w", flag, text, err)
	}
	return t, nil
}

func (a app) enqueue(ctx context.Context, d *dburl.Database, job *queue.Job) error {
	a.RepeatAdvice = "look whether the job is there before you repeat it: errand jobs list --kind " + plain.ShellQuote(job.Kind)
	if job.Key != "" {
		a.RepeatAdvice = "while the first job is live, its --key keeps a repeated one from being written; look whether it has run already: " +
			"errand jobs list --key " + plain.ShellQuote(job.Key)
	}
	if err := d.Queue.Enqueue(ctx, nil, job); err != nil {
		return err
	}
	if job.Duplicate {
		a.Notef("nothing written: job %d has the key %s", job.ID, job.Key)
	}
	return a.WriteOne(enqueued{job.ID, job.Queue, job.Kind, job.Duplicate, job.Replaced}, fmt.Sprint(job.ID))
}
