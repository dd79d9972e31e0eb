package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Audit implements [driver.Auditor] with sql/audit.sql.
func (b *Backend) Audit(ctx context.Context, db queue.DB, entries ...queue.AuditEntry) error {
	var actors, actions, selections, counts, reasons, jobs array
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return fmt.Errorf("postgres: audit: %w", err)
		}
		actors.string(e.Actor)
		actions.string(e.Action)
		selections.string(e.Selection)
		counts.int(e.Count)
		reasons.string(e.Reason)
		jobs.int(e.JobID)
	}
	if len(entries) == 0 {
		return nil
	}
	args := []any{actors.String(), actions.String(), selections.String(), counts.String(), reasons.String(), jobs.String()}
	return b.run(ctx, "audit", db, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql["audit"], args...)
		return err
	})
}

// AuditLog implements [driver.Auditor] with sql/audit_log.sql.
func (b *Backend) AuditLog(ctx context.Context, f queue.AuditFilter) (page []queue.AuditEntry, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, fmt.Errorf("postgres: audit log: %w", err)
	}
	query := b.sql["audit_log"]
	if f.JobID != 0 {
		query = strings.Replace(query, "($3::bigint IS NULL OR job_id = $3::bigint)", "job_id = $3::bigint", 1)
	}
	page, err = readAll(ctx, b, "audit log", func(rows *sql.Rows, e *queue.AuditEntry) error {
		err := rows.Scan(&e.ID, &e.At, &e.Actor, &e.Action, &e.Selection, &e.Count, &e.Reason, &e.JobID)
		e.At = e.At.UTC()
		return err
	}, query, sqlkit.OrNull(f.Actor), sqlkit.OrNull(f.Action), sqlkit.OrNull(f.JobID), f.Before, f.Limit)
	if err != nil {
		return nil, 0, err
	}
	return page, f.Next(page), nil
}
