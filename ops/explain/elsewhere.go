package explain

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// describeNoWorker says that no worker is alive, as far as the database and its schema, or the
// file, can tell.
func describeNoWorker(ctx context.Context, q *inquiry) string {
	if q.File != nil && q.File.Find(ctx) != "" {
		return fmt.Sprintf("No worker is alive that reports itself to the file %s.", q.File.Path)
	}
	if q.Server == nil {
		return "No worker is alive."
	}
	return fmt.Sprintf("No worker is alive that reports itself to the schema %s of the database %s.", q.Server.Tables.Schema, q.Server.Identity.Database)
}

// whyUnreported returns the reason if a worker runs jobs and has never reported itself: then there
// is a worker, of which nothing is known.
func whyUnreported(ctx context.Context, q *inquiry) (reasons []Reason, err error) {
	_, err = q.list(ctx, queue.Filter{Status: queue.StatusRunning}, func(r queue.Record) bool {
		if _, isKnown := findWorker(q, r.Worker); isKnown || !r.LeaseEnds.After(q.at) {
			return true
		}
		reasons = []Reason{{ID: "worker-unreported", Level: ops.Warn,
			Verdict:  fmt.Sprintf("The worker %s runs jobs, but does not report itself: so it is not known why it does not run job %d.", r.Worker, q.job.ID),
			Evidence: []string{fmt.Sprintf("it has taken or extended the lease of job %d of the queue %s %v ago", r.ID, r.Queue, words.Short(max(q.at.Sub(r.LockedAt), 0)))},
			Remedy:   "its log says why its reports fail: its handlers may hold every connection of its pool (docs/operations.md#pools), or its role may lack rights to the table workers (docs/roles.sql)"}}
		return false
	})
	return reasons, err
}

// findElsewhere says what looks like workers on other schemas of this database, and on other
// databases of the server. What it cannot find out it leaves out: it only helps to find a worker
// that is there.
func findElsewhere(ctx context.Context, q *inquiry) (found []string, err error) {
	if q.Server == nil {
		return nil, nil
	}
	schemas, err := listSchemas(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, name := range schemas {
		alive := 0
		err := q.Server.Query(ctx, "SELECT count(*) FROM "+words.Identifier(name)+".workers WHERE seen_at > clock_timestamp() - interval '35 seconds'",
			func(r *sql.Rows) error { return r.Scan(&alive) })
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if alive > 0 {
			found = append(found, fmt.Sprintf("%s alive in the schema %s of this database", words.Count(alive, "worker"), name))
		}
	}
	err = q.Server.Rows(ctx, "elsewhere", func(r *sql.Rows) error {
		var database, application string
		var n int
		err := r.Scan(&database, &application, &n)
		found = append(found, fmt.Sprintf("%s of errand on the database %s (application %q)", words.Count(n, "session"), database, application))
		return err
	})
	_, err = q.tryOrNote(ctx, "which sessions of errand are on other databases", err)
	return found, err
}

// listSchemas returns the other schemas of this database that are errand's.
func listSchemas(ctx context.Context, q *inquiry) (names []string, err error) {
	err = q.Server.Rows(ctx, "schemas", func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, q.Server.Tables.Schema)
	_, err = q.tryOrNote(ctx, "which other schemas are errand's", err)
	return names, err
}
