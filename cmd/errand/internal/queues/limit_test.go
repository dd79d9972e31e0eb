package queues

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// racing is a Ruler whose rule is changed by others after it was first read.
type racing struct {
	driver.Ruler
	change func()
}

func (r *racing) Rules(ctx context.Context) ([]queue.Rule, error) {
	rules, err := r.Ruler.Rules(ctx)
	if r.change != nil {
		r.change()
		r.change = nil
	}
	return rules, err
}

// TestChangeRule: a change of a limit keeps what others have changed meanwhile, and writes one
// entry.
func TestChangeRule(t *testing.T) {
	for _, b := range clitest.Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			d := clitest.WithJob(t, b.URL(t, t.TempDir()))
			ruler, _ := driver.As[driver.Ruler](d.Queue)
			race := &racing{ruler, func() {
				rule := queue.Rule{Queue: queue.DefaultQueue, PerGroup: 7, Paused: true}
				if err := ruler.SetRules(ctx, nil, rule, queue.Rule{Queue: queue.DefaultQueue, Group: "acme", Share: 2}); err != nil {
					t.Error(err)
				}
			}}
			l := newLimits(pflag.NewFlagSet("", pflag.ContinueOnError))
			if err := l.flags.Parse([]string{"--running", "5", "--rate", "10/m"}); err != nil {
				t.Fatal(err)
			}
			a := app{&cli.App{Out: io.Discard, Err: io.Discard, Timeout: 10 * time.Second}}
			if _, err := a.changeRule(ctx, d, race, queue.DefaultQueue, l); err != nil {
				t.Fatal(err)
			}
			want := queue.Rule{Queue: queue.DefaultQueue, PerGroup: 7, Running: 5, Rate: queue.Rate{Jobs: 10, Per: time.Minute}, Paused: true}
			if got, err := ruleOf(ctx, ruler, queue.DefaultQueue, ""); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			auditor, _ := driver.As[driver.Auditor](d.Queue)
			if log, _, err := auditor.AuditLog(ctx, queue.AuditFilter{}); err != nil || len(log) != 1 || log[0].Selection != "queue=default rate=10/1m running=5" {
				t.Errorf("got %+v, %v, want one entry", log, err)
			}
		})
	}
}
