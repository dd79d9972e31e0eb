package scenario

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/queue"
)

// deadShare is the part of all jobs that is dead in the default queue: one of so many.
const deadShare = 10

// fillDashboard makes the tables of a system that has run for a week: jobs of all statuses, the
// statistics of two days, rules, schedules, workers that have vanished, and an audit log.
func fillDashboard(ctx context.Context, h *harness.Harness, system peer.System) error {
	if err := h.Fresh(ctx, system); err != nil {
		return err
	}
	rows := h.Jobs(dashboardRows)
	minutes := max(int(2880*h.Scale), 60)
	statements := []string{
		`SELECT setseed(0.5)`,
		strings.ReplaceAll(dashboardJobs, "$rows", fmt.Sprint(rows)),
		strings.ReplaceAll(dashboardStats, "$minutes", fmt.Sprint(minutes)),
		dashboardSchedules, dashboardWorkers, dashboardAudit,
		`VACUUM (ANALYZE)`, `CHECKPOINT`,
	}
	if err := h.Postgres.Exec(ctx, statements...); err != nil {
		return err
	}
	return onBackend(h, func(_ *sql.DB, b *postgres.Backend) error { return b.SetRules(ctx, nil, dashboardRules()...) })
}

// dashboardJobs makes $rows jobs, the oldest a week old. One of 10 is dead in the default queue,
// and the drain's worker can run it. The others are of 49 queues and 200 kinds, some of which have
// many jobs, and others few.
const dashboardJobs = `
INSERT INTO errand.jobs (queue, kind, payload, status, scheduled_at, locked_at, locked_by, locked_until, attempts, last_error,
	created_at, updated_at, fence, started_at, finished_at, job_group, history)
SELECT
	CASE WHEN isDrained THEN 'default' ELSE 'queue-' || lpad((kind % 49)::text, 2, '0') END,
	CASE WHEN isDrained THEN 'bench.order' WHEN i = 1 THEN 'rare' ELSE 'kind-' || lpad(kind::text, 3, '0') END,
	jsonb_build_object('order', i, 'to', 'alice@example.com'), status::errand.job_status,
	CASE WHEN status = 'pending' AND luck < 0.985 THEN now() + luck * interval '1 day' ELSE at END,
	CASE WHEN status = 'running' THEN now() END, CASE WHEN status IN ('pending', 'held') THEN NULL ELSE 'worker-' || i % 20 END,
	CASE WHEN status = 'running' THEN now() + interval '1 day' END, CASE status WHEN 'dead' THEN 5 WHEN 'pending' THEN 0 ELSE 1 END,
	CASE WHEN status = 'dead' THEN 'dial tcp 10.0.0.' || i % 250 || ':5432: connect: connection refused' END,
	at, at + interval '1 second', i, CASE WHEN status NOT IN ('pending', 'held') THEN at END,
	CASE WHEN status NOT IN ('pending', 'held', 'running') THEN at + interval '1 second' END,
	CASE WHEN i % 100 = 0 THEN 'tenant-' || i % 1000 END,
	CASE WHEN status = 'dead' THEN jsonb_build_array(jsonb_build_object('at', at, 'attempt', 5, 'worker', 'worker-' || i % 20,
		'error', 'dial tcp: connection refused', 'took_ns', 1000000)) END
FROM (
	SELECT *, CASE
			WHEN isDrained THEN 'dead' WHEN i % 100000 = 7 THEN 'running' WHEN luck < 0.97 THEN 'completed' WHEN luck < 0.98 THEN 'dead'
			WHEN luck < 0.987 THEN 'pending' WHEN luck < 0.997 THEN 'cancelled' WHEN luck < 0.998 THEN 'held' ELSE 'completed'
		END AS status
	FROM (
		SELECT i, i % 10 = 3 AS isDrained, random() AS luck, floor(199 * power(random(), 3))::integer AS kind,
			now() - ($rows - i) * interval '6 days 12 hours' / $rows AS at
		FROM generate_series(1, $rows) AS i
	) AS made
) AS jobs`

// dashboardStats makes the statistics of $minutes minutes: each kind runs in each of them.
const dashboardStats = `
INSERT INTO errand.stats (minute, queue, kind, done, failed, dead, lost, ran, waited, run_times, wait_times)
SELECT date_trunc('minute', now()) - m * interval '1 minute', 'queue-' || lpad((k % 49)::text, 2, '0'), 'kind-' || lpad(k::text, 3, '0'),
	100, 3, 1, 0, 100000000, 300000000, '{0,0,3,10,40,30,12,5,2,1,1}', '{5,20,40,20,10,5,2,1,1}'
FROM generate_series(1, $minutes) AS m CROSS JOIN generate_series(0, 199) AS k`

const dashboardSchedules = `
INSERT INTO errand.schedules (name, spec, job, next_at, version)
SELECT 'report-' || i, '0 3 * * *', jsonb_build_object('queue', 'queue-01', 'kind', 'kind-001'), now() + interval '1 day', 1
FROM generate_series(1, 20) AS i`

const dashboardWorkers = `
INSERT INTO errand.workers (worker, info, started_at, claimed_at, seen_at)
SELECT 'worker-' || i, jsonb_build_object('name', 'worker-' || i, 'host', 'host-' || i, 'pid', i, 'version', '(devel)',
	'queues', jsonb_build_array('queue-01', 'queue-02'), 'concurrency', 100, 'busy', 1, 'waiting', 0, 'lease_ns', 60000000000,
	'grace_ns', 30000000000, 'listens', true, 'poll_ns', 5000000000), now() - interval '1 day', now(), now()
FROM generate_series(0, 19) AS i`

const dashboardAudit = `
INSERT INTO errand.audit (actor, action, selection, count, reason, job_id)
SELECT 'person-' || i % 10, 'jobs.cancel', 'jobs/' || i, 1, 'asked by the customer', i FROM generate_series(1, 10000) AS i`

// dashboardRules limits ten queues, and ten groups of each.
func dashboardRules() (rules []queue.Rule) {
	for q := range 10 {
		name := fmt.Sprintf("queue-%02d", q)
		rules = append(rules, queue.Rule{Queue: name, Running: 50})
		for g := range 10 {
			rules = append(rules, queue.Rule{Queue: name, Group: fmt.Sprintf("tenant-%d", 100*g), PerGroup: 2})
		}
	}
	return rules
}
