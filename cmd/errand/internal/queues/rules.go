package queues

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
)

func (a app) showQueueCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "Show a queue with its limits, and the limits of its groups",
		Long: `queues show shows the jobs of a queue as queues list does, and then the rule of
the queue and the rules of its groups. docs/limits.md and docs/rates.md explain
rules. A group has the queue's value where the group's rule has none; -1 is no
limit.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.FirstArg(a.CompleteQueues),
		RunE: a.Reading(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.showQueue(ctx, d, args[0])
		}),
	}
}

func (a app) showQueue(ctx context.Context, d *dburl.Database, name string) error {
	states, err := States(ctx, d)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(states, func(s State) bool { return s.Queue == name })
	if i < 0 {
		return cli.Nothingf("no queue %s%s", name, cli.DidYouMean(name, queuesOf(states)))
	}
	text := Table(states[i : i+1]).Text()
	if rules := states[i].Rules; len(rules) > 0 {
		text += "\n" + ruleTable(rules).Text()
	}
	return a.WriteOne(states[i], strings.TrimRight(text, "\n"))
}

// ruleTable shows rules. A limit that is not set is empty.
func ruleTable(rules []queue.Rule) cli.Table {
	t := cli.Table{Columns: cli.Columns("QUEUE GROUP PAUSED RUNNING PER_GROUP SHARE RATE GROUP_RATE ON_DEAD")}
	for _, r := range rules {
		t.Add(r.Queue, r.Group, cli.YesNo(r.Paused), numberText(r.Running), numberText(r.PerGroup), numberText(r.Share), rateText(r.Rate),
			rateText(r.GroupRate), string(r.OnDead))
	}
	return t
}

func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// rateText returns a rate as --rate reads it, and its burst.
func rateText(r queue.Rate) string {
	switch {
	case r.Jobs == 0:
		return ""
	case r.Jobs < 0:
		return strconv.Itoa(r.Jobs)
	}
	per := cmp.Or(r.Per, time.Second).String()
	if strings.HasSuffix(per, "m0s") {
		per = strings.TrimSuffix(per, "0s")
	}
	if strings.HasSuffix(per, "h0m") {
		per = strings.TrimSuffix(per, "0m")
	}
	text := fmt.Sprintf("%d/%s", r.Jobs, per)
	if r.Burst > 0 {
		text += fmt.Sprintf(" burst %d", r.Burst)
	}
	return text
}
