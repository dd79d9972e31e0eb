package servers

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
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

func raiseIsolation(ctx context.Context, h *harness.Harness) error {
	const share = 0.5
	crew, err := h.Crew(4, child.Work{Worker: peer.Worker{Concurrency: 32, Lease: 5 * time.Second}}) // its handlers take no time
	if err != nil {
		return err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 200, Ahead: 5000})
	if err != nil {
		return err
	}
	var phases []phase
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		p, err := atIsolation(ctx, h, level)
		if err != nil {
			return err
		}
		phases = append(phases, p)
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	h.Row.RecoveryMS = -1
	usual := audit.Rate(book.Effects, phases[0].from, phases[0].to)
	for _, p := range phases[1:] {
		rate := audit.Rate(book.Effects, p.from, p.to)
		h.Row.CheckTime(rate >= share*usual, "≥ 50 % of the rate at "+p.level, "%.0f of %.0f jobs/s", rate, usual)
	}
	return nil
}

// atIsolation makes all sessions start again at that level, and lets them work for a while.
func atIsolation(ctx context.Context, h *harness.Harness, level string) (p phase, err error) {
	if err := h.Exec(ctx, "ALTER DATABASE "+harness.Database+" SET default_transaction_isolation = '"+level+"'"); err != nil {
		return p, err
	}
	if err := h.Terminate(ctx); err != nil {
		return p, err
	}
	if err := h.Sleep(ctx, harness.Size(h, 5*time.Second, 2*time.Second)); err != nil { // until all have reconnected
		return p, err
	}
	p = phase{level: level, from: time.Now()}
	err = h.Sleep(ctx, harness.Size(h, 30*time.Second, 5*time.Second))
	p.to = time.Now()
	return p, err
}
