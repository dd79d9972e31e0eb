package migrate

import (
	"context"
	"time"

	"github.com/errandhq/errand/backend/dburl"
)

// showSteps shows how many of the steps have run, until stop is called.
func (a app) showSteps(ctx context.Context, d *dburl.Database, total int) (stop func()) {
	bar := a.Progress("migrate", total)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer bar.Close()
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			if list, err := steps(ctx, d); err == nil {
				bar.Set(countApplied(list))
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func countApplied(list []step) (n int) {
	for _, s := range list {
		if s.State == "applied" {
			n++
		}
	}
	return n
}
