package web

import (
	"context"
	"database/sql"
	"html/template"
	"net/url"
	"strconv"

	"github.com/errandhq/errand/queue"
)

// auditPage is what the page of the audit log shows.
type auditPage struct {
	Actor   string
	Entries []queue.AuditEntry
	First   template.URL // the query of the first page; "" on it
	Next    template.URL // the query of the next page; "" on the last
}

func audit(q *request) error {
	if q.h.source.auditor == nil {
		return errNotFound
	}
	query := q.URL.Query()
	f := queue.AuditFilter{Actor: query.Get("actor"), Limit: pageSize}
	var err error
	if f.Before, err = numberIn[int64](query, "before"); err != nil {
		return err
	}
	page := auditPage{Actor: f.Actor}
	var next int64
	err = q.h.call(q.Context(), callTimeout, func(ctx context.Context) error {
		page.Entries, next, err = q.h.source.auditor.AuditLog(ctx, f)
		return err
	})
	if err != nil {
		return err
	}
	fields := make(url.Values)
	if f.Actor != "" {
		fields.Set("actor", f.Actor)
	}
	v := q.view("Audit", &page)
	if f.Before > 0 {
		page.First, v.Every = template.URL("?"+fields.Encode()), 0
	}
	if next > 0 {
		fields.Set("before", strconv.FormatInt(next, 10))
		page.Next = template.URL("?" + fields.Encode())
	}
	return q.render("audit", v)
}

// change is an action: it changes something through db and returns how much.
type change func(ctx context.Context, db queue.DB) (int, error)

// audited runs a change, and writes its audit entry in the same transaction: neither is there
// without the other. On a backend without an Auditor or without transactions of database/sql, the
// change takes effect at once.
func (h *Handler) audited(ctx context.Context, e queue.AuditEntry, f change) (n int, err error) {
	if h.source.auditor == nil {
		return f(ctx, nil)
	}
	err = h.inTx(ctx, func(db queue.DB) error {
		if n, err = f(ctx, db); err != nil || n == 0 {
			return err
		}
		e.Count = int64(n)
		return h.source.auditor.Audit(ctx, db, e)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// inTx runs f in a transaction of the backend's database, if it has one of database/sql. It is READ
// COMMITTED whatever the default is: otherwise f would fail for jobs that change meanwhile.
func (h *Handler) inTx(ctx context.Context, f func(queue.DB) error) error {
	var tx *sql.Tx
	var err error
	switch {
	case h.source.beginner != nil:
		var end func()
		tx, end, err = h.source.beginner.BeginTx(ctx, nil, nil)
		if err != nil {
			return err
		}
		defer end()
	case h.source.db != nil:
		tx, err = h.source.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		defer tx.Rollback()
	default:
		return f(nil)
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
