package explain

import (
	"context"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// whyCannotWrite returns the reason if the server takes no writes from new sessions. Workers that
// had connected before may go on: if one of them claims, that is no reason.
func whyCannotWrite(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	if q.Server.Identity.IsStandby {
		return []Reason{{ID: "read-only", Level: ops.Warn, Verdict: "The server is a standby, which only reads: nobody claims there.",
			Evidence: []string{"what is said here is as old as what the standby has received"}, Remedy: words.AskPrimary}}, nil
	}
	if slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	places, err := q.Server.ReadOnly(ctx)
	if ok, err := q.tryOrNote(ctx, "whether the database may be written to", err); !ok || len(places) == 0 && !q.Server.Identity.IsReadOnly {
		return nil, err
	}
	return []Reason{{ID: "read-only", Level: ops.Fail, Remedy: reader.AllowWrites(places),
		Verdict:  "Workers can neither claim nor report themselves: " + reader.DescribePlaces(places) + ".",
		Evidence: []string{"no worker is known whose claims succeed"}}}, nil
}
