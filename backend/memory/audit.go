package memory

import (
	"context"
	"slices"

	"github.com/errandhq/errand/queue"
)

// Audit implements [driver.Auditor]. The entries of a transaction get their IDs when it commits.
func (q *Queue) Audit(ctx context.Context, db queue.DB, entries ...queue.AuditEntry) error {
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return failed("audit", err)
		}
	}
	tx, err := txOf(db)
	if err != nil {
		return failed("audit", err)
	}
	return q.do(ctx, "audit", tx, func() *memTx {
		at := now()
		written := slices.Clone(entries)
		for i := range written {
			written[i].At = at
		}
		if tx != nil {
			tx.audit = append(tx.audit, written...)
		} else {
			q.appendAudit(written)
		}
		return nil
	})
}

// appendAudit adds entries to the log. The caller holds q.mu.
func (q *Queue) appendAudit(entries []queue.AuditEntry) {
	for _, e := range entries {
		e.ID = int64(len(q.audit)) + 1
		q.audit = append(q.audit, e)
	}
}

// AuditLog implements [driver.Auditor].
func (q *Queue) AuditLog(ctx context.Context, f queue.AuditFilter) (page []queue.AuditEntry, next int64, err error) {
	f, err = f.Checked()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, 0, failed("audit log", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range slices.Backward(q.audit) {
		if len(page) < f.Limit && e.ID < f.Before && (f.Actor == "" || f.Actor == e.Actor) &&
			(f.Action == "" || f.Action == e.Action) && (f.JobID == 0 || f.JobID == e.JobID) {
			page = append(page, e)
		}
	}
	return page, f.Next(page), nil
}
