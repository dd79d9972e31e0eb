package processes

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

var rates = scenario.Scenario{
	Number: 37,
	Name:   "rates",
	What:   "at most 300 jobs a second and 12 of each of 30 groups; 8 worker processes of 8 handlers, one of which is killed with SIGKILL and replaced each second",
	Alone:  true,
	Run:    runRates,
}

var (
	queueRate = queue.Rate{Jobs: 300, Burst: 60}
	groupRate = queue.Rate{Jobs: 12, Burst: 6}
)

const ratedWorkers = 8

func runRates(ctx context.Context, h *harness.Harness) error {
	l, err := newLimitedLoad(ctx, h, queue.Rule{Rate: queueRate, GroupRate: groupRate})
	if err != nil {
		return err
	}
	defer l.db.Close()
	if _, err := l.db.ExecContext(ctx, logStarts); err != nil {
		return err
	}
	crew, err := h.Crew(ratedWorkers, child.Work{Worker: peer.Worker{Concurrency: 8, Lease: leaseOfKilled}})
	if err != nil {
		return err
	}
	seconds := harness.Size(h, 600, 15)
	source := h.Source("kills")
	for range seconds {
		if err := l.keepBacklog(ctx); err != nil {
			return err
		}
		if err := h.Sleep(ctx, time.Second); err != nil {
			return err
		}
		victim := source.IntN(ratedWorkers)
		if err := crew.Kill(ctx, victim); err != nil {
			return err
		}
		if err := crew.Replace(victim); err != nil {
			return err
		}
	}
	var started int
	if err := l.db.QueryRowContext(ctx, `SELECT count(*) FROM started, (SELECT min(at) AS first FROM started) AS f
		WHERE at >= f.first + interval '1 second' AND at < f.first + make_interval(secs => $1)`, seconds).Scan(&started); err != nil {
		return err
	}
	f, _, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	ofQueue, ofGroup, err := largestBursts(ctx, l.db)
	if err != nil {
		return err
	}
	used := float64(started) / float64((seconds-1)*queueRate.Jobs)
	h.Row.Check(ofQueue <= queueRate.Burst, fmt.Sprintf("starts in any window of time beyond the rate: at most %d", queueRate.Burst), "%d", ofQueue)
	h.Row.Check(ofGroup <= groupRate.Burst, fmt.Sprintf("the same of a group: at most %d", groupRate.Burst), "%d", ofGroup)
	h.Row.CheckTime(used >= 0.9, "tokens that are used: at least 90 %", "%.1f %%", 100*used)
	return nil
}

// logStarts makes the server keep each start of a job: the jobs table has only the last one.
const logStarts = `
	CREATE TABLE started (at timestamptz, job_group text, id bigint);
	CREATE FUNCTION log_start() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO started VALUES (NEW.started_at, NEW.job_group, NEW.id); RETURN NULL; END';
	CREATE TRIGGER log_start AFTER UPDATE ON errand.jobs FOR EACH ROW
		WHEN (NEW.status = 'running' AND NEW.fence <> OLD.fence) EXECUTE FUNCTION log_start();`

// keepBacklog refills the backlog if fewer jobs than one refill wait.
func (l *limitedLoad) keepBacklog(ctx context.Context) error {
	pending, _, _, err := l.look(ctx)
	if err != nil || pending >= limitedBacklog {
		return err
	}
	return l.refill(ctx)
}

// largestBursts returns how many jobs were started in a window of time beyond the rate times its
// length: the most of all windows, of the queue and of any group.
func largestBursts(ctx context.Context, db *sql.DB) (ofQueue, ofGroup int, err error) {
	// x grows with each start and falls with the rate, so a window's burst is the difference
	// between its ends, and one more; less a thousandth, because times are rounded to microseconds.
	const most = `SELECT ceil(max(x - lowest) + 0.999)::bigint
		FROM (
			SELECT of, x, min(x) OVER (PARTITION BY of ORDER BY at, id) AS lowest
			FROM (
				SELECT id, at, of, row_number() OVER (PARTITION BY of ORDER BY at, id)
					- $1 * extract(epoch FROM at - min(at) OVER ()) AS x
				FROM (SELECT at, id, CASE WHEN $2 THEN job_group END AS of FROM started) AS s
			) AS numbered
		) AS windows`
	if err := db.QueryRowContext(ctx, most, queueRate.Jobs, false).Scan(&ofQueue); err != nil {
		return 0, 0, err
	}
	err = db.QueryRowContext(ctx, most, groupRate.Jobs, true).Scan(&ofGroup)
	return ofQueue, ofGroup, err
}
