package jobs

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// lookup lists a page of jobs, as [driver.Inspector] does.
type lookup = func(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error)

// find lists up to f.Limit jobs, from several pages if needed, but from at most so many windows.
// next is the Before of the next page, or 0. With an error find returns the jobs that it has found.
func find(ctx context.Context, look lookup, f queue.Filter, windows int) (list []queue.Record, next int64, err error) {
	want := f.Limit
	isByAge := !f.IsIndexed() // then only the time of creation says where to look
	if isByAge && !f.CreatedTo.IsZero() && f.Before == 0 {
		if f.Before, err = beforeTime(ctx, look, f.CreatedTo.Add(maxOpen)); err != nil {
			return nil, 0, err
		}
	}
	for range windows {
		f.Limit = min(want-len(list), 1000)
		page, next, err := look(ctx, f)
		if err != nil {
			return list, f.Before, err
		}
		list = append(list, page...)
		if next == 0 || len(list) == want {
			return list, next, nil
		}
		f.Before = next
		if isByAge && !f.CreatedFrom.IsZero() {
			at, ok, err := createdBelow(ctx, look, next)
			if err != nil {
				return list, f.Before, err
			}
			if !ok || at.Before(f.CreatedFrom.Add(-maxOpen)) {
				return list, 0, nil
			}
		}
	}
	return list, f.Before, nil
}

// maxOpen is how long a transaction that enqueues may be open before find misses its jobs by their
// times: on PostgreSQL they were created when it began, and have higher IDs than older jobs.
const maxOpen = time.Hour

// createdBelow returns when the newest job with a lower ID was created. ok is false if there is
// none.
func createdBelow(ctx context.Context, look lookup, id int64) (at time.Time, ok bool, err error) {
	page, _, err := look(ctx, queue.Filter{Before: id, Limit: 1, Bare: true})
	if err != nil || len(page) == 0 {
		return time.Time{}, false, err
	}
	return page[0].CreatedAt, true, nil
}

// beforeTime returns a Before that leaves out jobs created after at, most of them but none that was
// created before. It is 0 if there are none to leave out.
func beforeTime(ctx context.Context, look lookup, at time.Time) (int64, error) {
	newest, _, err := look(ctx, queue.Filter{Limit: 1, Bare: true})
	if err != nil || len(newest) == 0 || newest[0].CreatedAt.Before(at) {
		return 0, err
	}
	const near = 10_000 // a window has more jobs
	low, high := int64(0), newest[0].ID
	for high-low > near {
		middle := low + (high-low)/2
		created, ok, err := createdBelow(ctx, look, middle)
		switch {
		case err != nil:
			return 0, err
		case !ok || created.Before(at):
			low = middle
		default:
			high = middle
		}
	}
	return high, nil
}
