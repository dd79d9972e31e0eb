package queues

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// rateFlag is the value of a flag that is a rate: JOBS, or JOBS/TIME.
type rateFlag struct{ rate *queue.Rate }

func (f rateFlag) String() string { return "" }

func (f rateFlag) Type() string { return "JOBS/TIME" }

func (f rateFlag) Set(text string) (err error) {
	jobs, per, hasPer := strings.Cut(text, "/")
	if f.rate.Jobs, err = strconv.Atoi(jobs); err != nil {
		return cli.Usagef("not such as 10, 10/s or 5000/24h")
	}
	if !hasPer {
		f.rate.Per = 0
		return nil
	}
	if per != "" && strings.Trim(per, "msh") == "" {
		per = "1" + per // s is 1s
	}
	if f.rate.Per, err = time.ParseDuration(per); err != nil {
		return cli.Usagef("not such as 10, 10/s or 5000/24h")
	}
	if f.rate.Per <= 0 { // 0 would mean a second
		return cli.Usagef("%d jobs in %v: a time is longer than 0", f.rate.Jobs, f.rate.Per)
	}
	return nil
}

// limits are the flags of queues limit.
type limits struct {
	flags  *pflag.FlagSet
	set    queue.Rule // what they say
	clear  bool
	unseen bool
}

func (a app) limitQueueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limit QUEUE",
		Short: "Change the limits of a queue, or of a group of it",
		Long: `queues limit changes how many jobs of a queue run at once, and how many start in
a time, over all workers. A limit that no flag names stays as it is, and a pause
stays, too. 0 ends a limit. In the rule of a --group, 0 means the queue's value,
and -1 means no limit. A program that sets the queue's rules when it starts undoes
the change. docs/limits.md and docs/rates.md explain each limit.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.FirstArg(a.CompleteQueues),
		Example: `  errand queues limit emails --running 40 --rate 100/s
  errand queues limit emails --group acme --per-group 5 --group-rate 10/m
  errand queues limit emails --clear`,
	}
	l := newLimits(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !l.changesRule() {
			return cli.Usagef("which limit? Give one of the flags, or --clear")
		}
		if onDead := l.set.OnDead; onDead != "" && onDead != queue.HoldDead && onDead != "pass" {
			return cli.Usagef("--on-dead %s: hold or pass", onDead)
		}
		return a.Writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.limitQueue(ctx, d, args[0], l)
		})(cmd, args)
	}
	_ = cmd.RegisterFlagCompletionFunc("on-dead", cobra.FixedCompletions([]string{"hold", "pass"}, cobra.ShellCompDirectiveNoFileComp))
	return a.Audited(cmd)
}

// newLimits adds the flags.
func newLimits(flags *pflag.FlagSet) *limits {
	l := &limits{flags: flags}
	flags.StringVar(&l.set.Group, "group", "", "change the rule of this group")
	flags.IntVar(&l.set.Running, "running", 0, "how many jobs of the queue may run at once")
	flags.IntVar(&l.set.PerGroup, "per-group", 0, "how many jobs of one group may run at once")
	flags.IntVar(&l.set.Share, "share", 0, "how many jobs of a group are claimed before the next group's turn")
	flags.Var(rateFlag{&l.set.Rate}, "rate", "how many jobs of the queue start in a time, such as 10/s or 5000/24h")
	flags.IntVar(&l.set.Rate.Burst, "rate-burst", 0, "how many jobs of the queue may start at once")
	flags.Var(rateFlag{&l.set.GroupRate}, "group-rate", "how many jobs of one group start in a time")
	flags.IntVar(&l.set.GroupRate.Burst, "group-rate-burst", 0, "how many jobs of one group may start at once")
	flags.StringVar((*string)(&l.set.OnDead), "on-dead", "", "`hold` an ordered job that would be dead, or let the group pass it: hold or pass")
	flags.BoolVar(&l.clear, "clear", false, "end all limits of the rule before other flags take effect")
	flags.BoolVar(&l.unseen, "unseen", false, unseenQueue)
	return l
}

// ruleFlags copy the value of a flag into a rule.
var ruleFlags = map[string]func(r *queue.Rule, set queue.Rule){
	"running":    func(r *queue.Rule, set queue.Rule) { r.Running = set.Running },
	"per-group":  func(r *queue.Rule, set queue.Rule) { r.PerGroup = set.PerGroup },
	"share":      func(r *queue.Rule, set queue.Rule) { r.Share = set.Share },
	"rate":       func(r *queue.Rule, set queue.Rule) { r.Rate.Jobs, r.Rate.Per = set.Rate.Jobs, set.Rate.Per },
	"rate-burst": func(r *queue.Rule, set queue.Rule) { r.Rate.Burst = set.Rate.Burst },
	"group-rate": func(r *queue.Rule, set queue.Rule) {
		r.GroupRate.Jobs, r.GroupRate.Per = set.GroupRate.Jobs, set.GroupRate.Per
	},
	"group-rate-burst": func(r *queue.Rule, set queue.Rule) { r.GroupRate.Burst = set.GroupRate.Burst },
	"on-dead":          func(r *queue.Rule, set queue.Rule) { r.OnDead = set.OnDead },
}

// changesRule reports whether a flag changes something.
func (l *limits) changesRule() bool {
	changes := l.flags.Changed("clear")
	for name := range ruleFlags {
		changes = changes || l.flags.Changed(name)
	}
	return changes
}

// apply returns the rule with the changes of the flags.
func (l *limits) apply(r queue.Rule) queue.Rule {
	if l.clear {
		r = queue.Rule{Queue: r.Queue, Group: r.Group}
	}
	for name, set := range ruleFlags {
		if l.flags.Changed(name) {
			set(&r, l.set)
		}
	}
	if r.OnDead == "pass" {
		r.OnDead = queue.PassDead
	}
	for _, rate := range []*queue.Rate{&r.Rate, &r.GroupRate} {
		if rate.Jobs <= 0 {
			*rate = queue.Rate{Jobs: rate.Jobs}
		}
	}
	r.Paused = false // only queues pause and resume change it
	return r
}

// checkBursts returns an error if a flag sets the burst of a rate that the changed rule does not
// have: apply has left it out.
func (l *limits) checkBursts(changed queue.Rule) error {
	for _, f := range []struct {
		flag    string
		set, is queue.Rate
	}{
		{"--rate", l.set.Rate, changed.Rate},
		{"--group-rate", l.set.GroupRate, changed.GroupRate},
	} {
		if f.set.Burst != 0 && f.is.Jobs <= 0 {
			return cli.Usagef("%s-burst %d: the rule has no rate for it: give %s, too", f.flag, f.set.Burst, f.flag)
		}
	}
	return nil
}

// selection returns the text of a change for the audit log: queue=emails running=40.
func (l *limits) selection(r queue.Rule) string {
	parts := []string{"queue=" + r.Queue}
	if r.Group != "" {
		parts = append(parts, "group="+r.Group)
	}
	if l.clear {
		parts = append(parts, "clear")
	}
	l.flags.Visit(func(f *pflag.Flag) {
		if _, ok := ruleFlags[f.Name]; !ok {
			return
		}
		value := f.Value.String()
		switch f.Name {
		case "rate":
			value = rateText(queue.Rate{Jobs: r.Rate.Jobs, Per: r.Rate.Per})
		case "group-rate":
			value = rateText(queue.Rate{Jobs: r.GroupRate.Jobs, Per: r.GroupRate.Per})
		}
		parts = append(parts, f.Name+"="+cmp.Or(value, "0"))
	})
	return strings.Join(parts, " ")
}

// limited is what errand queues limit tells.
type limited struct {
	Rule    queue.Rule `json:"rule"`
	Before  queue.Rule `json:"before"`
	Changed bool       `json:"changed"` // false if it was so before
}

// errRuleChanged: while a rule was being changed, a program or a person has changed it.
var errRuleChanged = errors.New("programs or people change the rule again and again, nothing was changed")

func (a app) limitQueue(ctx context.Context, d *dburl.Database, name string, l *limits) error {
	ruler, err := cli.Need[driver.Ruler](d)
	if err != nil {
		return err
	}
	states, err := States(ctx, d)
	if err != nil {
		return err
	}
	if err := a.checkQueues(ctx, d, states, []string{name}, l.set.Group, l.unseen); err != nil {
		return err
	}
	done, err := a.changeRule(ctx, d, ruler, name, l)
	if err != nil {
		return err
	}
	if !done.Changed {
		a.Notef("the rule was so before")
	}
	return a.WriteOne(done, strings.TrimRight(ruleTable([]queue.Rule{done.Rule}).Text(), "\n"))
}

// changeRule changes a rule, and begins anew if a program or a person has changed the rule
// meanwhile.
func (a app) changeRule(ctx context.Context, d *dburl.Database, ruler driver.Ruler, name string, l *limits) (done limited, err error) {
	for range 5 {
		if done, err = a.tryChangeRule(ctx, d, ruler, name, l); !errors.Is(err, errRuleChanged) {
			break
		}
	}
	return done, err
}

// tryChangeRule reads a rule and writes it changed, in a transaction with its entry in the audit
// log. It returns errRuleChanged, and changes nothing, if the rule was changed in between. Without
// transactions, as on Redis, the last change wins.
func (a app) tryChangeRule(ctx context.Context, d *dburl.Database, ruler driver.Ruler, name string, l *limits) (limited, error) {
	before, err := ruleOf(ctx, ruler, name, l.set.Group)
	if err != nil {
		return limited{}, err
	}
	after := l.apply(before)
	if err := l.checkBursts(after); err != nil {
		return limited{}, err
	}
	done := limited{Rule: after, Before: before}
	done.Rule.Paused = before.Paused
	done.Changed = done.Rule != before
	entry := queue.AuditEntry{Action: "queues.limit", Selection: l.selection(after)}
	err = a.Act(ctx, d, entry, func(db queue.DB, entry *queue.AuditEntry) error {
		if done.Changed {
			entry.Count = 1
		}
		if err := ruler.SetRules(ctx, db, after); err != nil || db == nil {
			return err // without a transaction, Rules would answer with the new rule
		}
		// From here to the end of the transaction all other changes of rules wait. A different
		// connection sees the changes that were committed before.
		now, err := ruleOf(ctx, ruler, name, l.set.Group)
		if err == nil && now != before {
			err = errRuleChanged
		}
		return err
	})
	return done, err
}

// ruleOf returns the rule of a queue, or of a group of it. If it has none, nothing is set in it.
func ruleOf(ctx context.Context, ruler driver.Ruler, name, group string) (queue.Rule, error) {
	rules, err := ruler.Rules(ctx)
	for _, r := range rules {
		if r.Queue == name && r.Group == group {
			return r, err
		}
	}
	return queue.Rule{Queue: name, Group: group}, err
}
