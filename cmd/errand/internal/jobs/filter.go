package jobs

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
)

// filterFlags adds the flags that choose jobs of these statuses.
func (a app) filterFlags(cmd *cobra.Command, f *queue.Filter, statuses []queue.Status) *pflag.FlagSet {
	flags := cmd.Flags()
	flags.StringVar(&f.Queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.Kind, "kind", "", "only jobs of this kind")
	flags.StringVar((*string)(&f.Status), "status", "", "only jobs with this `STATUS`: "+strings.Join(texts(statuses), ", "))
	flags.StringVar(&f.Key, "key", "", "only jobs with this key")
	flags.StringVar(&f.Group, "group", "", "only jobs of this group")
	flags.IntVar(&f.MinAttempts, "min-attempts", 0, "only jobs that have been run at least `N` times")
	cli.MomentFlag(flags, &f.CreatedFrom, "created-since", "only jobs created at this time or later: 90m for 90 minutes ago, or RFC 3339")
	cli.MomentFlag(flags, &f.CreatedTo, "created-until", "only jobs created before this time")
	if slices.ContainsFunc(statuses, hasEnded) {
		cli.MomentFlag(flags, &f.FinishedFrom, "ended-since", "only jobs that were completed, dead or cancelled at this time or later")
		cli.MomentFlag(flags, &f.FinishedTo, "ended-until", "only jobs that were completed, dead or cancelled before this time")
	}
	if slices.Contains(statuses, queue.StatusRunning) {
		flags.BoolVar(&f.Expired, "expired", false, "only running jobs whose lease has expired")
		flags.DurationVar(&f.RunningFor, "running-for", 0, "only jobs that have been running for at least this time")
	}
	_ = cmd.RegisterFlagCompletionFunc("queue", a.CompleteQueues)
	_ = cmd.RegisterFlagCompletionFunc("kind", a.CompleteKinds)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(texts(statuses), cobra.ShellCompDirectiveNoFileComp))
	return flags
}

// hasEnded reports whether jobs with the status have a time at which they ended.
func hasEnded(s queue.Status) bool {
	return s == queue.StatusCompleted || s == queue.StatusDead || s == queue.StatusCancelled
}

func texts(statuses []queue.Status) (list []string) {
	for _, s := range statuses {
		list = append(list, string(s))
	}
	return list
}

// checkFilter checks all but the Limit, which find keeps.
func checkFilter(f queue.Filter, known []queue.Status) error {
	isByEnd := !f.FinishedFrom.IsZero() || !f.FinishedTo.IsZero()
	isEmpty := func(from, to time.Time) bool { return !from.IsZero() && !to.IsZero() && !from.Before(to) }
	switch {
	case f.Status != "" && !slices.Contains(known, f.Status):
		return cli.Usagef("--status %s: it is one of %s", f.Status, strings.Join(texts(known), ", "))
	case isByEnd && f.Status != "" && !hasEnded(f.Status):
		return cli.Usagef("--status %s beside --ended-since or --ended-until: only completed, dead and cancelled jobs have ended", f.Status)
	case isEmpty(f.CreatedFrom, f.CreatedTo):
		return cli.Usagef("--created-until is not later than --created-since")
	case isEmpty(f.FinishedFrom, f.FinishedTo):
		return cli.Usagef("--ended-until is not later than --ended-since")
	}
	f.Limit = 0
	_, err := f.Checked()
	return err
}
