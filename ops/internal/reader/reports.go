package reader

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// HeldReports is a transaction that has locked what workers write when they report themselves, so
// that their reports wait. A worker may live although it is silent because of that. nil means that
// there is none.
type HeldReports struct {
	Chain Chain
	open  time.Duration // for how long; 0 if this role may not see that
}

// reportPatience is how long a report waits for a lock before it gives up, and somewhat more.
const reportPatience = 4 * time.Second

// HeldReports looks for such a transaction. Many lock rows there that no report needs: reports wait
// for this one if a session waits for it now, or if no worker has reported itself since it began.
// HeldReports asks the server only if a worker is silent.
func (s *Server) HeldReports(ctx context.Context, workers []driver.WorkerRecord) (*HeldReports, error) {
	if !slices.ContainsFunc(workers, IsSilent) {
		return nil, nil
	}
	list, err := Lasting(ctx, func(ctx context.Context) (list []Locker, err error) {
		err = s.Rows(ctx, "report_locks", func(r *sql.Rows) error {
			var l Locker
			err := r.Scan(append(l.Targets(), &l.Table, &l.isAwaited)...)
			list = append(list, l)
			return err
		})
		return list, err
	})
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		open := words.Seconds(l.open.Float64)
		hasReported := func(w driver.WorkerRecord) bool { return w.Silent < open-Overdue } // since it began
		isReport := l.open.Valid && open < reportPatience
		blocks := l.isAwaited || l.open.Valid && !slices.ContainsFunc(workers, hasReported)
		if isReport || !blocks {
			continue
		}
		c, err := s.Chain(ctx, l)
		return &HeldReports{c, open}, err
	}
	return nil, nil
}

// Explains reports whether the worker may be silent only because of the transaction: it has been
// open since the worker's first report that is missing.
func (h *HeldReports) Explains(w driver.WorkerRecord) bool {
	return h != nil && IsSilent(w) && (h.open == 0 || h.open >= w.Silent-Overdue)
}

// Apart returns the workers whose silence the transaction does not explain, with those that it does
// explain as live ones; and the names of the latter.
func (h *HeldReports) Apart(workers []driver.WorkerRecord) (all []driver.WorkerRecord, names []string) {
	all = slices.Clone(workers)
	for i := range all {
		if w := &all[i]; h.Explains(*w) {
			w.Vanished = false
			names = append(names, w.Name)
		}
	}
	return all, names
}

// Text says why it is not known which of the named workers live, and what to do about it.
func (h *HeldReports) Text(names []string) string {
	return fmt.Sprintf("whether these workers live: %s. A transaction has locked rows of the table workers or stats, so their reports wait: %s. Remedy: %s",
		words.Enumerate(names), h.Chain.Text(), h.Chain.Remedy())
}
