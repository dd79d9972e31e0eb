package queues

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Moving a queue.
//
//   - Problem: a queue's live jobs have to go to another database while programs enqueue and work
//     there, and this program may die at any point. No job may be lost, or run in both.
//   - Rule: pending jobs first change to the queue of transit, in the old database, which no worker
//     serves. The new database receives a batch of these jobs, except jobs that it has received
//     before, and then the old database deletes the batch. So a move after a move that died begins
//     with the jobs in transit.
//   - Bounds: a move that died goes on within [driver.TransferWindow]. Running jobs stay until they
//     have ended or are pending again; held jobs stay.
//   - Test: TestMoveCrashes, TestMoveBesideWorkers.

// transitPrefix is the prefix of the names of queues in transit.
const transitPrefix = "errand-moving-"

// How many jobs are set aside at once, and how many are read, received and deleted.
const (
	asideBatch = 1000
	moveBatch  = 200
)

// mover moves the live jobs of a queue.
type mover struct {
	name string
	from interface {
		driver.Inspector
		driver.Editor
	}
	to driver.Receiver
	// setAside gives chosen jobs of the old database to another queue there.
	setAside func(ctx context.Context, which queue.Selection, to string) (n int, err error)
	// step runs one bounded step.
	step func(ctx context.Context, f func(context.Context) error) error
	// moved is told how many jobs of a batch have arrived.
	moved func(n int)
	// ordered is asked before ordered jobs are moved, and returns an error if they may not be.
	ordered func(ctx context.Context) error
}

func (m *mover) transit() string { return transitPrefix + m.name }

// pass moves all jobs that are pending now, and the jobs that an earlier move has left in transit.
func (m *mover) pass(ctx context.Context) error {
	ids, err := m.pending(ctx, m.name)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, asideBatch) {
		err := m.step(ctx, func(ctx context.Context) error {
			_, err := m.setAside(ctx, queue.Selection{IDs: part, Queue: m.name, Status: queue.StatusPending}, m.transit())
			return err
		})
		if err != nil {
			return err
		}
	}
	if ids, err = m.pending(ctx, m.transit()); err != nil {
		return err
	}
	for part := range slices.Chunk(ids, moveBatch) {
		if err := m.step(ctx, func(ctx context.Context) error { return m.send(ctx, part) }); err != nil {
			return err
		}
	}
	return nil
}

// pending returns the IDs of a queue's pending jobs, the oldest first.
func (m *mover) pending(ctx context.Context, name string) (ids []int64, err error) {
	f := queue.Filter{Queue: name, Status: queue.StatusPending, Limit: 1000, NoPayload: true}
	hasOrdered := false
	for more := true; more; more = f.Before != 0 {
		err := m.step(ctx, func(ctx context.Context) error {
			page, next, err := m.from.Jobs(ctx, f)
			for _, r := range page {
				ids, hasOrdered = append(ids, r.ID), hasOrdered || r.Ordered
			}
			f.Before = next
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(ids)
	if hasOrdered && name == m.name {
		return ids, m.ordered(ctx)
	}
	return ids, nil
}

// send moves jobs in transit to the new database: the jobs with IDs from the first to the last.
func (m *mover) send(ctx context.Context, ids []int64) error {
	page, err := m.inTransit(ctx, ids)
	if err != nil || len(page) == 0 {
		return err
	}
	transfers, sent := make([]driver.Transfer, len(page)), make([]int64, len(page))
	for i, r := range page {
		if r.Unreadable != nil {
			return cli.Refusedf("job %d cannot be read, and stays in queue %s: %w", r.ID, m.transit(), r.Unreadable)
		}
		transfers[i], sent[i] = driver.Transfer{Source: m.sourceOf(r), Job: m.jobOf(r)}, r.ID
	}
	if _, err := m.to.Receive(ctx, transfers...); err != nil {
		return fmt.Errorf("jobs %d to %d stay in queue %s: %w", sent[0], sent[len(sent)-1], m.transit(), err)
	}
	n, err := m.from.Delete(ctx, nil, queue.Selection{IDs: sent, Queue: m.transit(), Status: queue.StatusPending})
	m.moved(n)
	return err
}

// inTransit returns the jobs in transit from the first to the last of ids, the oldest first. It may
// return more jobs.
func (m *mover) inTransit(ctx context.Context, ids []int64) (list []queue.Record, err error) {
	f := queue.Filter{Queue: m.transit(), Status: queue.StatusPending, Limit: len(ids), Before: ids[len(ids)-1] + 1}
	for more := true; more; more = f.Before > ids[0] && len(list) < len(ids) {
		page, next, err := m.from.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		list, f.Before = append(list, page...), next
	}
	slices.Reverse(list)
	return list, nil
}

// jobOf returns the job to receive.
func (m *mover) jobOf(r queue.Record) *queue.Job {
	job := r.Job
	job.Queue = m.name
	return &job
}

// sourceOf names a job among the jobs of all databases: no two databases have a job with the same
// ID, microsecond and kind.
func (m *mover) sourceOf(r queue.Record) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%d", m.name, r.Kind, r.ID, r.CreatedAt.UnixMicro()))
	return "move " + hex.EncodeToString(sum[:16])
}
