package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/jobs"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/explain"
)

func (a app) explainCommand() *cobra.Command {
	var q explain.Question
	cmd := &cobra.Command{
		Use:   "explain ID | --key KEY | --queue QUEUE | --kind KIND",
		Short: "Tell why a job does not run, or how it has ended",
		Long: `explain looks at the job with an ID or a key, or at the due job of a queue or a
kind that has waited longest. It prints the reasons, the most important first. A
reason after "also" keeps the job from running, too. explain exits with 5 if
somebody has to act, and with 3 if the job, queue or kind does not exist.
docs/doctor.md lists the reasons.`,
		Args: cobra.MaximumNArgs(1),
		Example: `  errand explain 42
  errand explain --queue emails`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := jobs.ParseIDs(args)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			q.ID = ids[0]
			if q.ID < 1 {
				return noSuchID(args[0])
			}
		}
		if q == (explain.Question{}) {
			return cli.Usagef("which job? Give an ID, --key, --queue or --kind")
		}
		return a.Examining(a.Bounded(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.explain(ctx, d, q) }))(cmd, args)
	}
	cmd.SetFlagErrorFunc(negativeID)
	flags := cmd.Flags()
	flags.StringVar(&q.Key, "key", "", "the job with this key")
	flags.StringVar(&q.Queue, "queue", "", "the oldest due job of this queue; with --key, the key's queue")
	flags.StringVar(&q.Kind, "kind", "", "the oldest due job of this kind")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.CompleteQueues)
	_ = cmd.RegisterFlagCompletionFunc("kind", a.CompleteKinds)
	return cmd
}

// noSuchID refuses an ID that only SQL can have given.
func noSuchID(id string) error {
	return cli.Usagef("%s: errand gives jobs IDs from 1 on, and explain takes no other ID", id)
}

// negativeID returns the error of a flag. If the flag is a number, such as -5, it is an error about
// an ID.
func negativeID(_ *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if id := "-" + unknown.GetSpecifiedShortnames(); isNumber(id) {
			return noSuchID(id)
		}
	}
	return err
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// answerJSON is an answer of explain.Job in the JSON of this program.
type answerJSON struct {
	explain.Answer
	Job *jobs.JSON `json:"job,omitempty"`
}

func (a app) explain(ctx context.Context, d *dburl.Database, q explain.Question) error {
	q.Program = a.Program()
	answer, err := explain.Job(ctx, d.Queue, q)
	if err != nil {
		return err
	}
	answer.At = answer.At.UTC()
	item := answerJSON{Answer: answer}
	if answer.Job != nil {
		job := jobs.NewJSON(*answer.Job, false)
		item.Job = &job
	}
	text := a.answerText(answer)
	if err := a.WriteOne(item, text); err != nil {
		return err
	}
	a.NotePassword(text)
	switch level := answer.Level(); {
	case answer.Job == nil && !hasCause(answer) && (level != ops.OK || q.ID > 0):
		return cli.Nothingf("explain: %s", answer.Reasons[0].ID)
	case level == ops.OK:
		return nil
	default:
		return cli.Foundf("explain: %s", answer.Reasons[0].ID)
	}
}

// hasCause reports whether an answer without a job says more than that there is none: the job may
// be there and could not be read, or a schedule has not enqueued it yet.
func hasCause(answer explain.Answer) bool {
	first := answer.Reasons[0].ID
	return first == "table-locked" || first == "perhaps-waits" || strings.HasPrefix(first, "schedule-")
}

// answerText returns the reasons, each with its evidence and its remedy.
func (a app) answerText(answer explain.Answer) string {
	var b strings.Builder
	if j := answer.Job; j != nil {
		fmt.Fprintf(&b, "job %d: %s, queue %s, kind %s, attempts %s\n", j.ID, plain.Line(string(j.Status)), plain.Line(j.Queue), plain.Line(j.Kind), jobs.AttemptText(*j))
	}
	for i, r := range answer.Reasons {
		also := ""
		if i > 0 {
			also = "also: "
		}
		fmt.Fprintf(&b, "%s%s (%s)\n", also, a.Paint(string(r.Level), plain.Line(r.Verdict)), plain.Line(r.ID))
		for _, e := range r.Evidence {
			fmt.Fprintf(&b, "  %s\n", plain.Line(e))
		}
		if r.Remedy != "" {
			fmt.Fprintf(&b, "  → %s\n", plain.Line(r.Remedy))
		}
	}
	if j := answer.Job; j != nil && j.LastError != "" {
		fmt.Fprintf(&b, "last error: %s\n", plain.Line(j.LastError))
	}
	for _, u := range answer.Unknown {
		fmt.Fprintf(&b, "not known: %s\n", plain.Line(u))
	}
	return strings.TrimRight(b.String(), "\n")
}
