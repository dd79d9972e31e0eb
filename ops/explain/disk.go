package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// whyDiskFull returns the reason if the disk is full, and no worker is known whose claims succeed.
func whyDiskFull(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	r := Reason{ID: "disk-full", Level: ops.Fail, Verdict: "The disk of the database is full, so workers can neither claim nor report themselves.",
		Evidence: []string{"no worker is known whose claims succeed"}, Remedy: words.MakeRoom}
	switch {
	case q.Server != nil:
		isFull, err := q.Server.IsFull(ctx)
		if ok, err := q.tryOrNote(ctx, "whether the server's disk is full", err); !ok || !isFull {
			return nil, err
		}
		r.Verdict = "The server's disk is full (it has no room for a temporary file of a megabyte), so workers can perhaps neither claim nor report themselves."
		return []Reason{r}, nil
	case q.File != nil:
		q.File.Find(ctx)
		free, ok := q.File.Room()
		if !ok || free >= reader.TooLittleRoom {
			return nil, nil
		}
		r.Evidence = append(r.Evidence, fmt.Sprintf("the disk of the file has room for %d kB", free>>10))
		r.Remedy = "make room on it"
		return []Reason{r}, nil
	}
	return nil, nil
}
