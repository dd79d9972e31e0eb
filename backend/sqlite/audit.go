package sqlite

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
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return fmt.Errorf("sqlite: audit: %w", err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return b.onHandle(ctx, "audit", db, func(ctx context.Context, db queue.DB) error {
		at := now()
		for _, e := range entries {
			_, err := exec(ctx, db, b.sql["audit"], at, e.Actor, e.Action, sqlkit.OrNull(e.Selection), e.Count,
				sqlkit.OrNull(e.Reason), sqlkit.OrNull(e.JobID))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// AuditLog implements [driver.Auditor] with sql/audit_log.sql.
func (b *Backend) AuditLog(ctx context.Context, f queue.AuditFilter) (page []queue.AuditEntry, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, fmt.Errorf("sqlite: audit log: %w", err)
	}
	query := b.sql["audit_log"]
	if f.JobID != 0 {
		query = strings.Replace(query, "(?3 IS NULL OR job_id = ?3)", "job_id = ?3", 1)
	}
	page, err = readAll(ctx, b, "audit log", func(rows *sql.Rows, e *queue.AuditEntry) error {
		var at int64
		err := rows.Scan(&e.ID, &at, &e.Actor, &e.Action, &e.Selection, &e.Count, &e.Reason, &e.JobID)
		e.At = timeAt(at)
		return err
	}, query, sqlkit.OrNull(f.Actor), sqlkit.OrNull(f.Action), sqlkit.OrNull(f.JobID), f.Before, f.Limit)
	if err != nil {
		return nil, 0, err
	}
	return page, f.Next(page), nil
}
