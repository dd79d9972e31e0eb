package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// maxShown is how many bytes of a payload a page shows. The rest is a download.
const maxShown = 64 << 10

// jobPage is what the page of a job shows.
type jobPage struct {
	queue.Record
	Error      string
	Unreadable string
	Timeline   []event
	Values     []shownValue
	CanRedrive bool
	CanCancel  bool
	CanRun     bool
	CanDelete  bool
	Answer     *explain.Answer // why it does not run, or what it waits for; nil if it is completed
	IsAsking   bool            // Answer is not known yet
	IsOld      bool            // Answer was found out too long ago to be true now
	IsAsked    bool            // it runs, and somebody has cancelled it
	IsShown    bool            // values are shown
	NoResult   bool            // the program may read the payload, and not output and progress
	Schedule   string
	Tick       time.Time
}

// event is a line of a job's timeline.
type event struct {
	At    time.Time
	Title string
	Text  string
	Error string
	Stack string
	Level string
}

// shownValue is a payload, a header or an output as the person may see it.
type shownValue struct {
	Title    string
	Text     string
	IsShape  bool
	Download bool // the page shows a part only
}

func job(q *request) error {
	id, err := q.id()
	if err != nil {
		return err
	}
	r, err := q.h.readJob(q.Context(), id)
	var result queue.Result
	var mayRead bool
	if err == nil {
		result, mayRead, err = q.h.readResult(q.Context(), &r)
	}
	switch {
	case errors.Is(err, errNoJob):
		answer, _ := q.answer(withPatience(q.Context(), patienceAfter), id) // the page has nothing else
		return q.noJob(id, http.StatusNotFound, answer)
	case errors.Is(err, context.DeadlineExceeded):
		return q.lockedJob(id, err)
	case err != nil:
		return err
	}
	var found lateness
	isExplained := r.Status != queue.StatusCompleted
	asksValues := q.URL.Query().Get("values") != ""
	page := jobPage{
		Record:     r,
		Error:      q.shown(Value{Kind: r.Kind, Field: FieldError, Text: r.LastError}),
		Timeline:   q.timeline(&r),
		CanRedrive: q.may(Operate) && q.h.source.editor != nil && canRedrive(r.Status),
		CanCancel:  q.may(Operate) && q.h.source.canceller != nil && canCancel(&r),
		CanRun:     q.may(Operate) && q.h.source.editor != nil && canRun(&r, q.now),
		CanDelete:  q.may(Edit) && q.h.source.editor != nil && r.Status != queue.StatusRunning,
		IsAsked:    r.Status == queue.StatusRunning && !r.CancelAt.IsZero(),
		IsShown:    asksValues && q.may(Payload),
		NoResult:   !mayRead,
	}
	if isExplained {
		page.Answer, found = q.answer(q.Context(), id)
		page.IsAsking = page.Answer == nil && found.isAwaited
		page.IsOld = q.now.Sub(found.at) > trustedFor
	}
	page.Schedule, page.Tick, _ = queue.TickOf(&r.Job)
	if r.Unreadable != nil {
		page.Unreadable = plain(r.Unreadable.Error())
	}
	if page.IsShown {
		if err := q.noteSeen("jobs.show-values"); err != nil {
			return err
		}
	}
	page.Values = q.values(&r, result, page.IsShown)
	v := q.view(fmt.Sprintf("Job %d", r.ID), page)
	v.showAges(found)
	if page.IsShown || !isExplained {
		v.rest()
	}
	return q.render("job", v)
}

// answer returns why the job does not run, or what has become of it; nil if that is not known yet.
func (q *request) answer(ctx context.Context, id int64) (*explain.Answer, lateness) {
	a := q.h.samples.answers.of(id).get(ctx)
	age := late("What is the matter", a)
	if a.At.IsZero() || len(a.Value.Reasons) == 0 {
		return nil, age
	}
	return &a.Value, age
}

// noJobPage is what the page of an ID shows that no job has, or whose job cannot be read.
type noJobPage struct {
	ID     int64
	Answer *explain.Answer // what has become of the job; nil if that is not known yet
}

func (q *request) noJob(id int64, status int, a *explain.Answer) error {
	if a != nil && a.Job != nil {
		a = nil // it was there when the answer was found
	}
	v := q.view(fmt.Sprintf("Job %d", id), noJobPage{ID: id, Answer: a})
	v.Every, v.Status = 0, status
	return q.render("nojob", v)
}

// lockedJob says who has locked the whole table, if that is why the job could not be read in time.
func (q *request) lockedJob(id int64, err error) error {
	answers := q.h.samples.answers.of(id)
	answers.outdate(q.now) // the lock may be newer
	a := answers.get(withPatience(q.Context(), patienceAfter)).Value
	if len(a.Reasons) == 0 || a.Reasons[0].ID != "table-locked" {
		return err
	}
	q.logFailure(err)
	return q.noJob(id, http.StatusServiceUnavailable, &a)
}

// noteSeen logs and audits that the person sees the values of the job. If that fails, nobody sees
// them.
func (q *request) noteSeen(action string) error {
	target := "jobs/" + q.PathValue("id")
	var err error
	if q.h.source.auditor != nil {
		err = q.h.call(q.Context(), callTimeout, func(ctx context.Context) error {
			return q.h.source.auditor.Audit(ctx, nil, q.entry(action, target))
		})
	}
	q.log(action, target, 0, err)
	return err
}

// readJob returns the job.
func (h *Handler) readJob(ctx context.Context, id int64) (r queue.Record, err error) {
	err = h.call(ctx, callTimeout, func(ctx context.Context) error {
		var ok bool
		if r, ok, err = h.source.inspector.Job(ctx, id); err == nil && !ok {
			return errNoJob
		}
		return err
	})
	return r, err
}

// readResult returns what the job has set as output and progress, and whether the program's user
// may read that. It does not ask for a job without a payload: a role that may not read payloads
// may not read outputs either, and the page says so once.
func (h *Handler) readResult(ctx context.Context, r *queue.Record) (result queue.Result, mayRead bool, err error) {
	if h.source.results == nil || r.Unreadable != nil {
		return result, true, nil
	}
	err = h.call(ctx, callTimeout, func(ctx context.Context) error {
		result, _, err = h.source.results.Result(ctx, r.ID)
		return err
	})
	if lacksRight(err) {
		return queue.Result{}, false, nil
	}
	return result, true, err
}

// id returns the ID in the request's path.
func (q *request) id() (int64, error) {
	id, err := strconv.ParseInt(q.PathValue("id"), 10, 64)
	if err != nil {
		return 0, errNotFound
	}
	return id, nil
}

func canRedrive(s queue.Status) bool {
	return slices.Contains(driver.Redrivable(), s)
}

func canCancel(r *queue.Record) bool {
	switch r.Status {
	case queue.StatusPending, queue.StatusHeld:
		return true
	case queue.StatusRunning:
		return r.CancelAt.IsZero()
	}
	return false
}

// canRun reports whether the job waits for its time.
func canRun(r *queue.Record, now time.Time) bool {
	return r.Status == queue.StatusPending && r.ScheduledAt.After(now)
}

// timeline returns what is known of the job's life, the oldest first.
func (q *request) timeline(r *queue.Record) []event {
	events := []event{{At: r.CreatedAt, Title: "Enqueued"}}
	for _, f := range r.History {
		e := event{At: f.At, Title: fmt.Sprintf("Attempt %d failed", f.Attempt), Level: "fail",
			Text:  fmt.Sprintf("after %s on %s", duration(f.Took), f.Worker),
			Error: q.shown(Value{Kind: r.Kind, Field: FieldError, Text: f.Error}),
			Stack: q.shown(Value{Kind: r.Kind, Field: FieldStack, Text: f.Stack}),
		}
		if f.Redrives > 0 {
			e.Text += fmt.Sprintf(", after redrive %d", f.Redrives)
		}
		events = append(events, e)
	}
	add := func(at time.Time, title, text, level string) {
		if !at.IsZero() {
			events = append(events, event{At: at, Title: title, Text: text, Level: level})
		}
	}
	redrives := ""
	if r.Redrives > 1 {
		redrives = fmt.Sprintf("for the %d. time", r.Redrives)
	}
	add(r.RedrivenAt, "Retried by a person", redrives, "")
	add(r.CancelAt, "Cancelled", "", "warn")
	if r.Status != queue.StatusPending {
		add(r.StartedAt, fmt.Sprintf("Attempt %d started", r.Attempt), onWorker(r.Worker), "")
	}
	switch r.Status {
	case queue.StatusCompleted:
		add(r.FinishedAt, "Completed", "", "ok")
	case queue.StatusDead:
		add(r.FinishedAt, "Dead", fmt.Sprintf("after %d of %d attempts", r.Attempt, r.MaxAttempts), "fail")
	case queue.StatusPending:
		if r.ScheduledAt.After(q.now) {
			add(r.ScheduledAt, "Due", fmt.Sprintf("for attempt %d of %d", r.Attempt+1, r.MaxAttempts), "")
		} else {
			add(r.ScheduledAt, "Due since", "", "") // the answer of explain says what it waits for
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.At.Compare(b.At) })
	return events
}

func onWorker(worker string) string {
	if worker == "" {
		return ""
	}
	return "on " + worker
}

// values returns payload, headers, output and progress as the person may see them. Values are shown
// to people with the permission who have asked for them; otherwise the page shows what the
// redaction leaves.
func (q *request) values(r *queue.Record, result queue.Result, isShown bool) (all []shownValue) {
	add := func(title string, field Field, name string, text []byte) {
		if len(text) == 0 {
			return
		}
		v := shownValue{Title: title, IsShape: !isShown}
		if isShown {
			v.Text, v.Download = pretty(text)
			v.Download = v.Download && field == FieldPayload
		} else {
			v.Text = plain(cut(q.h.options.Redact(Value{Kind: r.Kind, Field: field, Name: name, Text: string(text)}), maxShown))
		}
		all = append(all, v)
	}
	if r.Unreadable == nil {
		text := r.Payload
		if isShown {
			var err error
			if text, err = q.h.open(&r.Job); err != nil {
				all = append(all, shownValue{Title: "Payload, opened", Text: "Open has failed: " + plain(queue.ErrorText(err))})
			}
		}
		add("Payload", FieldPayload, "", text)
	}
	add("Progress", FieldProgress, "", result.Progress)
	add("Output", FieldOutput, "", result.Output)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		add("Header "+plain(name), FieldHeader, name, []byte(r.Headers[name]))
	}
	return all
}

// open returns the job's payload, opened, or as it is stored if that fails.
func (h *Handler) open(job *queue.Job) (json.RawMessage, error) {
	if h.options.Open == nil {
		return job.Payload, nil
	}
	opened, err := h.options.Open(job)
	if err != nil || opened == nil {
		return job.Payload, err
	}
	return opened.Payload, nil
}

// pretty returns a stored text with its JSON indented, and whether it is only the first part.
// json.Indent keeps the digits of numbers.
func pretty(text []byte) (shown string, isPart bool) {
	if len(text) > maxShown {
		return plain(string(text[:maxShown])) + "…", true
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil || b.Len() > 2*maxShown {
		return plain(string(text)), false
	}
	return plain(b.String()), false
}

// payload answers with the whole payload, as a download. If it does not open, that is the payload
// as it is stored; the job's page says why.
func payload(q *request) error {
	id, err := q.id()
	if err != nil {
		return err
	}
	r, err := q.h.readJob(q.Context(), id)
	if err != nil {
		return err
	}
	if err := q.noteSeen("jobs.download"); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "application/json")
	q.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d.json"`, r.ID))
	text, _ := q.h.open(&r.Job)
	fmt.Fprint(q.w, string(text))
	return nil
}
