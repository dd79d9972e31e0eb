package explain

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// The actions of the audit log have the names that cmd/errand and package web give them.

// findAudited returns the last such action on that job of the audit log, as a sentence. ok is false
// if there is none.
func findAudited(ctx context.Context, q *inquiry, id int64, action string) (text string, ok bool, err error) {
	entry, ok, err := findAudit(ctx, q, queue.AuditFilter{JobID: id, Action: action}, func(queue.AuditEntry) bool { return true })
	return entryText(entry), ok, err
}

// findAuditedBulk returns the action on many jobs that comes next to at, as a sentence. Such an
// entry does not name its jobs, but it is written in the transaction that changes them. A zero at
// is any.
func findAuditedBulk(ctx context.Context, q *inquiry, action string, at time.Time) (text string, ok bool, err error) {
	const near = 10 * time.Second
	entry, ok, err := findAudit(ctx, q, queue.AuditFilter{Action: action, Limit: 1000}, func(e queue.AuditEntry) bool {
		return e.JobID == 0 && (at.IsZero() || e.At.Sub(at).Abs() <= near)
	})
	if !ok {
		return "", false, err
	}
	return fmt.Sprintf("%s; for %s: %s", entryText(entry), words.Count(entry.Count, "job"), entry.Selection), true, nil
}

// findAudit returns the newest entry that filter and isWanted choose and that has changed
// something, if the backend keeps entries. It looks at a few pages.
func findAudit(ctx context.Context, q *inquiry, filter queue.AuditFilter, isWanted func(queue.AuditEntry) bool) (found queue.AuditEntry, ok bool, err error) {
	const pages = 3
	for range pages {
		page, next, err := q.AuditLog(ctx, filter)
		if ok, err := q.tryOrAsk(ctx, "what the audit log says", "SELECT on the table audit, as errand_observer of docs/roles.sql has", err); !ok {
			return found, false, err
		}
		i := slices.IndexFunc(page, func(e queue.AuditEntry) bool { return e.Count > 0 && isWanted(e) })
		if i >= 0 {
			return page[i], true, nil
		}
		if next == 0 {
			return found, false, nil
		}
		filter.Before = next
	}
	return found, false, nil
}

func entryText(e queue.AuditEntry) string {
	text := fmt.Sprintf("%s: %s, at %s", e.Action, e.Actor, e.At.Format(time.RFC3339))
	if e.Reason != "" {
		text += ", because: " + e.Reason
	}
	return text
}

// nameCanceller returns who has cancelled the job, as far as the audit log says.
func nameCanceller(ctx context.Context, q *inquiry) ([]string, error) {
	if text, ok, err := findAudited(ctx, q, q.job.ID, "jobs.cancel"); err != nil || ok {
		return []string{text}, err
	}
	text, ok, err := findAuditedBulk(ctx, q, "jobs.cancel", q.job.CancelAt)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return []string{"at that time many jobs were cancelled together, perhaps this one, too: " + text}, nil
	}
	return []string{"the audit log does not say who: a program has cancelled it, or SQL"}, nil
}

// namePauser returns who has paused the target. The selections are those that cmd/errand and
// package web write: "queue=emails" and "queues/emails".
func namePauser(ctx context.Context, q *inquiry, target queue.Target) ([]string, error) {
	text := target.String()
	what, name, _ := strings.Cut(text, "=")
	selections := []string{text}
	if target.Group == "" { // the dashboard pauses no groups
		selections = append(selections, what+"s/"+url.PathEscape(name))
	}
	find := func(action string) (queue.AuditEntry, bool, error) {
		return findAudit(ctx, q, queue.AuditFilter{Action: what + action, Limit: 1000}, func(e queue.AuditEntry) bool {
			return slices.Contains(selections, e.Selection)
		})
	}
	paused, ok, err := find("s.pause")
	if err != nil || !ok {
		return nil, err
	}
	if resumed, ok, err := find("s.resume"); err != nil || ok && resumed.ID > paused.ID {
		return nil, err // a program or SQL has paused it since
	}
	return []string{entryText(paused)}, nil
}
