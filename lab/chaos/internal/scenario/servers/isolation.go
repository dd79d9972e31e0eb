package servers

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/lab"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/system"
)

var isolation = scenario.Scenario{
	Number: 18,
	Name:   "isolation",
	What:   "the database's default isolation level becomes repeatable read, and then serializable",
	Alone:  true,
	Run:    raiseIsolation,
}

// phase is a time with one isolation level.
type phase struct {
	level    string
	from, to time.Time
}

func raiseIsolation(ctx context.Context, l *lab.Lab) error {
	const share = 0.5
	crew, err := l.Crew(4, child.Work{Worker: system.Worker{Concurrency: 32, Lease: 5 * time.Second}}) // whose handlers take no time
	if err != nil {
		return err
	}
	enqueuer, err := l.Enqueuer("enqueuer", child.Enqueue{Batch: 200, Ahead: 5000})
	if err != nil {
		return err
	}
	var phases []phase
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		p, err := atIsolation(ctx, l, level)
		if err != nil {
			return err
		}
		phases = append(phases, p)
	}
	f, book, err := scenario.Finish(ctx, l, crew, enqueuer)
	if err != nil {
		return err
	}
	l.CheckDuplicates(f)
	l.Row.RecoveryMS = -1
	usual := audit.Rate(book.Effects, phases[0].from, phases[0].to)
	for _, p := range phases[1:] {
		rate := audit.Rate(book.Effects, p.from, p.to)
		l.Row.CheckTime(rate >= share*usual, "≥ 50 % of the rate at "+p.level, "%.0f of %.0f jobs/s", rate, usual)
	}
	return nil
}

// atIsolation has all sessions begin anew at that level, and lets them work for a while.
func atIsolation(ctx context.Context, l *lab.Lab, level string) (p phase, err error) {
	if err := l.Exec(ctx, "ALTER DATABASE "+lab.Database+" SET default_transaction_isolation = '"+level+"'"); err != nil {
		return p, err
	}
	if err := l.Terminate(ctx); err != nil {
		return p, err
	}
	if err := l.Sleep(ctx, lab.Size(l, 5*time.Second, 2*time.Second)); err != nil { // until all have connected again
		return p, err
	}
	p = phase{level: level, from: time.Now()}
	err = l.Sleep(ctx, lab.Size(l, 30*time.Second, 5*time.Second))
	p.to = time.Now()
	return p, err
}
