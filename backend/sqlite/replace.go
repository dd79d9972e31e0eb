package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// forever is more than any delay in microseconds. A time plus forever still is a time.
const forever = math.MaxInt64 / 2

func replaces(j *queue.Job) bool { return j.OnDuplicate == queue.Replace }

// writeReplacing enqueues jobs, some of which replace others, in their order: jobs in a row that
// are replaced in the same way together.
func (b *Backend) writeReplacing(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && isReplacedAlike(jobs[0], jobs[n]) {
			n++
		}
		write := b.writeKeyed
		if replaces(jobs[0]) {
			write = b.replace
		}
		if err := write(ctx, db, jobs[:n]); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// isReplacedAlike reports whether one statement can write both jobs.
func isReplacedAlike(a, b *queue.Job) bool {
	return a.OnDuplicate == b.OnDuplicate && a.MaxDelay == b.MaxDelay && a.ScheduledAt.IsZero() == b.ScheduledAt.IsZero()
}

// jobKey is a key in its queue, which at most one live job may have.
type jobKey struct{ queue, key string }

func keyOf(j *queue.Job) jobKey { return jobKey{cmp.Or(j.Queue, queue.DefaultQueue), j.Key} }

// replace enqueues jobs that all replace others, and are replaced alike. On a handle that is no
// transaction a worker may claim a pending job that is about to be replaced. Then replace tries
// again.
func (b *Backend) replace(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	for range sqlkit.KeyRounds {
		if _, err := exec(ctx, db, b.sql["give_up"], keys(jobs)); err != nil {
			return err
		}
		left, err := b.replaceWaiting(ctx, db, jobs)
		if err != nil || len(left) == 0 {
			return err
		}
		jobs = left
	}
	return sqlkit.ErrKeyRounds
}

// replaceWaiting writes the jobs whose keys no running job has, and returns the others.
func (b *Backend) replaceWaiting(ctx context.Context, db queue.DB, jobs []*queue.Job) (left []*queue.Job, err error) {
	type place struct {
		id    int64
		isNew bool
	}
	now, longest := now(), int64(forever)
	if jobs[0].MaxDelay > 0 {
		longest = sqlkit.Microseconds(jobs[0].MaxDelay)
	}
	places := make(map[jobKey]place)
	err = queryRows(ctx, db, func(r *sql.Rows) error {
		var k jobKey
		var p place
		err := r.Scan(&k.queue, &k.key, &p.id, &p.isNew)
		places[k] = p
		return err
	}, b.sql["enqueue_replacing"], rows(jobs, now), now, longest, !jobs[0].ScheduledAt.IsZero())
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		p, ok := places[keyOf(j)]
		if !ok {
			left = append(left, j)
			continue
		}
		j.ID, j.Duplicate, j.Replaced = p.id, false, !p.isNew
		p.isNew = false // a later job of the batch with this key has replaced this one
		places[keyOf(j)] = p
	}
	return left, nil
}

// keys returns the JSON array of the pairs of queue and key of the jobs.
func keys(jobs []*queue.Job) string {
	var l list
	for _, j := range jobs {
		k := keyOf(j)
		l.begin()
		l.string(k.queue)
		l.string(k.key)
		l.end()
	}
	return l.String()
}
