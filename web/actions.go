package web

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/errandhq/errand/queue"
)

// maxReason is how many characters of a reason are logged.
const maxReason = 500

// act runs an action, logs and audits it, and sends the browser to a page that says the result.
func (q *request) act(name, target, page string, f change) error {
	ctx, cancel := context.WithTimeout(q.Context(), actionTimeout)
	defer cancel()
	n, err := q.h.audited(ctx, q.entry(name, target), f)
	q.h.actions.Add(1)
	q.log(name, target, n, err)
	if err != nil {
		return err
	}
	q.redirect(page, url.Values{"did": {name}, "n": {strconv.Itoa(n)}})
	return nil
}

// targetOf returns a queue, a kind or a schedule as logs and audit entries name it. explain.Job
// looks for that.
func targetOf(what, name string) string { return what + "/" + url.PathEscape(name) }

// entry returns the audit entry of an action.
func (q *request) entry(action, target string) queue.AuditEntry {
	e := queue.AuditEntry{Actor: cutBytes(q.access.Actor, 200), Action: action, Selection: cutBytes(target, 10_000), Reason: q.reason()}
	if id, err := q.id(); err == nil {
		e.JobID = id
	}
	return e
}

// reason returns why the person acts.
func (q *request) reason() string {
	return strings.ReplaceAll(cut(strings.TrimSpace(strings.ToValidUTF8(q.PostFormValue("reason"), "")), maxReason), "\x00", "")
}

// cutBytes returns text as a database can store it, in at most n bytes.
func cutBytes(text string, n int) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), n)], "")
}

// log writes who has done what, and why.
func (q *request) log(action, target string, n int, err error) {
	attrs := []any{"actor", q.access.Actor, "action", action, "target", target, "changed", n,
		"reason", q.reason()}
	level, text := slog.LevelInfo, "errand: dashboard: action"
	if err != nil {
		text = "errand: dashboard: action failed"
		if _, isLogged := explainError(err); isLogged {
			level = slog.LevelError
		}
		attrs = append(attrs, "error", err)
	}
	q.h.options.Logger.Log(q.Context(), level, text, attrs...)
}

// notices are what a page says after an action, by its name: if it has changed nothing,
// and if it has changed something.
var notices = map[string][2]string{
	"read":             {"Not read again: that would take too much of the database's time. Beside each old value stands its age.", "The page was read again."},
	"jobs.redrive":     {"Nothing was changed: the job has changed meanwhile, or a live job has its key.", "The job is pending again."},
	"jobs.cancel":      {"Nothing was changed: the job has ended meanwhile.", "The job is cancelled, or its worker has been asked to end it."},
	"jobs.run":         {"Nothing was changed: the job waits no more.", "The job is due now."},
	"jobs.delete":      {"Nothing was changed: the job runs, or there is none.", "The job is deleted."},
	"queues.pause":     {"Nothing was changed: the queue was paused already.", "The queue is paused. Jobs that run go on."},
	"queues.resume":    {"Nothing was changed: the queue was not paused.", "The queue is resumed."},
	"queues.limit":     {"", "The limits are changed."},
	"kinds.pause":      {"Nothing was changed: the kind was paused already.", "The kind is paused. Jobs that run go on."},
	"kinds.resume":     {"Nothing was changed: the kind was not paused.", "The kind is resumed."},
	"schedules.pause":  {"Nothing was changed: the schedule was paused already, or there is none.", "The schedule is paused."},
	"schedules.resume": {"Nothing was changed: the schedule was not paused, or there is none.", "The schedule is resumed."},
}

// noticeOf returns what a page says of the action that has led to it, or "".
func noticeOf(query url.Values) string {
	texts, ok := notices[query.Get("did")]
	if !ok {
		return ""
	}
	if query.Get("n") == "0" {
		return texts[0]
	}
	return texts[1]
}

func redriveJob(q *request) error {
	id, err := q.id()
	if err != nil || q.h.source.editor == nil {
		return errNotFound
	}
	r, err := q.h.readJob(q.Context(), id) // before the transaction: the pool may have one connection
	if err != nil {
		return err
	}
	return q.actOnJob("jobs.redrive", func(ctx context.Context, db queue.DB, id int64) (int, error) {
		if !canRedrive(r.Status) {
			return 0, nil
		}
		return q.h.source.editor.Redrive(ctx, db, queue.Selection{IDs: []int64{id}, Status: r.Status})
	})
}

func cancelJob(q *request) error {
	if q.h.source.canceller == nil {
		return errNotFound
	}
	return q.actOnJob("jobs.cancel", func(ctx context.Context, db queue.DB, id int64) (int, error) {
		return q.h.source.canceller.Cancel(ctx, db, queue.Selection{IDs: []int64{id}})
	})
}

func runJob(q *request) error {
	if q.h.source.editor == nil {
		return errNotFound
	}
	return q.actOnJob("jobs.run", func(ctx context.Context, db queue.DB, id int64) (int, error) {
		which := queue.Selection{IDs: []int64{id}, Status: queue.StatusPending}
		return q.h.source.editor.Edit(ctx, db, which, queue.JobChange{RunNow: true})
	})
}

// actOnJob runs an action on the job that the path names.
func (q *request) actOnJob(name string, f func(context.Context, queue.DB, int64) (int, error)) error {
	id, err := q.id()
	if err != nil {
		return err
	}
	page := "jobs/" + strconv.FormatInt(id, 10)
	return q.act(name, page, page, func(ctx context.Context, db queue.DB) (int, error) { return f(ctx, db, id) })
}

// deleteJob deletes a job. Its page is gone afterwards, so the list says what it came to.
func deleteJob(q *request) error {
	id, err := q.id()
	if err != nil || q.h.source.editor == nil {
		return errNotFound
	}
	return q.act("jobs.delete", "jobs/"+strconv.FormatInt(id, 10), "jobs", func(ctx context.Context, db queue.DB) (int, error) {
		return q.h.source.editor.Delete(ctx, db, queue.Selection{IDs: []int64{id}})
	})
}
