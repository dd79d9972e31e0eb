package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// pending returns what keeps a pending job from running, the most certain reason first.
func (f *facts) pending(ctx context.Context) (reasons []Reason, err error) {
	isDue := !f.job.ScheduledAt.After(f.at)
	if !isDue {
		reasons = append(reasons, f.notDue())
	}
	looks := []func(context.Context) ([]Reason, error){
		f.paused, f.tableLocked, f.rowLocked, f.writeLocked, f.ordered, f.limited, f.rated,
	}
	if isDue {
		looks = append(looks, f.served, f.ahead)
	}
	for _, look := range looks {
		more, err := look(ctx)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, more...)
	}
	if len(reasons) == 0 {
		reasons = append(reasons, f.unexplained())
	}
	return reasons, nil
}

// never is the year from which on a due time means that the job never runs. Backends show infinity
// as such a time.
const never = 9999

// notDue returns why a job is not due yet.
func (f *facts) notDue() Reason {
	j := f.job
	in := j.ScheduledAt.Sub(f.at)
	due := fmt.Sprintf("it is due in %v, at %s by the database's clock", short(in), j.ScheduledAt.Format(time.RFC3339))
	runNow := "wait, or run it now: " + command("jobs", "reschedule", j.ID, "--now")
	switch {
	case j.ScheduledAt.Year() >= never:
		return Reason{ID: "never-due", Level: Warn, Verdict: fmt.Sprintf("Job %d is scheduled for never.", j.ID),
			Evidence: []string{"SQL has set its scheduled_at to " + j.ScheduledAt.Format(time.RFC3339) + " or later"}, Remedy: runNow}
	case j.Attempt > 0:
		return Reason{ID: "back-off", Level: levelOf(j.Attempt, 2, max(j.MaxAttempts, 3)), Remedy: "mend what makes it fail; " + runNow,
			Verdict:  fmt.Sprintf("Job %d has failed and waits for its next attempt.", j.ID),
			Evidence: []string{due, fmt.Sprintf("it has used %d of %d attempts; last_error and history say how they ended", j.Attempt, j.MaxAttempts)}}
	case j.UpdatedAt.Sub(j.CreatedAt) > time.Second:
		return Reason{ID: "put-off", Level: OK, Verdict: fmt.Sprintf("Job %d was put off.", j.ID), Remedy: runNow, Evidence: []string{due,
			"it was changed at " + j.UpdatedAt.Format(time.RFC3339) + ": its handler has snoozed it, a worker has released it, or a person has rescheduled it"}}
	}
	return Reason{ID: "delayed", Level: OK, Verdict: fmt.Sprintf("Job %d is scheduled for later.", j.ID), Evidence: []string{due}, Remedy: runNow}
}

// paused returns the pauses that hold for the job.
func (f *facts) paused(ctx context.Context) (reasons []Reason, err error) {
	j := f.job
	if err := f.readRules(ctx); err != nil {
		return nil, err
	}
	for _, r := range f.rules {
		switch {
		case !r.Paused || r.Queue != j.Queue:
		case r.Group == "":
			reasons = append(reasons, Reason{ID: "queue-paused", Level: Warn, Verdict: "The queue " + j.Queue + " is paused.", Remedy: command("queues", "resume", j.Queue)})
		case r.Group == j.Group:
			reasons = append(reasons, Reason{ID: "group-paused", Level: Warn, Verdict: fmt.Sprintf("The group %q of the queue %s is paused.", j.Group, j.Queue),
				Remedy: command("queues", "resume", j.Queue, "--group", j.Group)})
		}
	}
	pauser, ok := queue.As[queue.Pauser](f.queue)
	if !ok {
		return reasons, nil
	}
	kinds, err := pauser.PausedKinds(ctx)
	if ok, err := f.tryOrNote(ctx, "whether the kind is paused", err); !ok {
		return reasons, err
	}
	if slices.Contains(kinds, j.Kind) {
		reasons = append(reasons, Reason{ID: "kind-paused", Level: Warn, Verdict: "The kind " + j.Kind + " is paused.", Remedy: command("kinds", "resume", j.Kind)})
	}
	return reasons, nil
}

// readRules reads the rules, if the backend keeps some.
func (f *facts) readRules(ctx context.Context) error {
	ruler, ok := queue.As[queue.Ruler](f.queue)
	if !ok {
		return nil
	}
	rules, err := ruler.Rules(ctx)
	if ok, err := f.tryOrNote(ctx, "the rules of the queue", err); !ok {
		return err
	}
	f.rules = rules
	return nil
}

// locker is a transaction that has locked something. pid is 0 for a prepared one.
type locker struct {
	pid                      int
	prepared                 string
	application, role, state string
	open                     float64 // for how many seconds
}

func (l *locker) targets() []any {
	return []any{&l.pid, &l.prepared, &l.application, &l.role, &l.state, &l.open}
}

func (l locker) evidence() string {
	if l.pid == 0 {
		return fmt.Sprintf("the prepared transaction %q, for %v", l.prepared, short(seconds(l.open)))
	}
	return fmt.Sprintf("session %d (application %s, role %s, %s), its transaction is open for %v", l.pid, l.application, l.role, l.state, short(seconds(l.open)))
}

func (l locker) remedy() string {
	if l.pid == 0 {
		return "COMMIT PREPARED or ROLLBACK PREPARED " + literal(l.prepared)
	}
	return fmt.Sprintf("end that transaction, or: SELECT pg_terminate_backend(%d)", l.pid)
}

// lockers runs a statement that returns lockers.
func (f *facts) lockers(ctx context.Context, what, name string, args ...any) (list []locker, err error) {
	err = f.server.rows(ctx, name, func(r *sql.Rows) error {
		var l locker
		err := r.Scan(l.targets()...)
		list = append(list, l)
		return err
	}, args...)
	if ok, err := f.tryOrNote(ctx, what, err); !ok {
		return nil, err
	}
	return list, nil
}

// briefly is how long a lock may be held before it is a reason: claims and heartbeats hold theirs
// for milliseconds.
const briefly = time.Second

// tableLocked returns who has locked the whole table, or waits for that: claims wait behind both.
func (f *facts) tableLocked(ctx context.Context) ([]Reason, error) {
	if f.server == nil {
		return nil, nil
	}
	list, err := f.lockers(ctx, "who has locked the table", "table_lock")
	for _, l := range list {
		if seconds(l.open) >= briefly {
			return []Reason{{ID: "table-locked", Level: Fail, Verdict: "A transaction has locked the table of jobs, or waits to lock it, so all claims wait.",
				Evidence: []string{l.evidence()}, Remedy: l.remedy()}}, nil
		}
	}
	return nil, err
}

// rowLocked returns who has locked the job's row: claims pass over it.
func (f *facts) rowLocked(ctx context.Context) ([]Reason, error) {
	if f.server == nil {
		return nil, nil
	}
	list, err := f.lockers(ctx, "who has locked the job", "row_lock", f.job.ID)
	for _, l := range list {
		if seconds(l.open) >= briefly {
			return []Reason{{ID: "row-locked", Level: Warn, Verdict: fmt.Sprintf("An open transaction has locked job %d, so claims pass over it.", f.job.ID),
				Evidence: []string{l.evidence()}, Remedy: l.remedy()}}, nil
		}
	}
	return nil, err
}

// ordered returns which job of the same line comes first.
func (f *facts) ordered(ctx context.Context) ([]Reason, error) {
	j := f.job
	if !j.Ordered {
		return nil, nil
	}
	first, ok, err := f.firstOfLine(ctx)
	if err != nil || !ok || first.ID == j.ID {
		return nil, err
	}
	r := Reason{Level: OK, Remedy: command("explain", first.ID), Evidence: []string{
		fmt.Sprintf("job %d, of the kind %s, is %s, and has used %d of %d attempts", first.ID, first.Kind, first.Status, first.Attempt, first.MaxAttempts)}}
	behind := fmt.Sprintf("Job %d waits for job %d of its group %q, ", j.ID, first.ID, j.Group)
	switch {
	case first.Status == queue.StatusHeld:
		r.ID, r.Level, r.Verdict = "behind-held", Fail, behind+"which is held."
		r.Remedy = "mend what made it fail, then " + command("jobs", "retry", first.ID) + ". Or " + command("jobs", "cancel", first.ID)
	case first.Status == queue.StatusRunning:
		r.ID, r.Verdict = "behind-running", behind+"which runs."
	case first.Attempt > 0 && first.ScheduledAt.After(f.at):
		r.ID, r.Level, r.Verdict = "behind-back-off", Warn, behind+fmt.Sprintf("which has failed and is tried again in %v.", short(first.ScheduledAt.Sub(f.at)))
	default:
		r.ID, r.Verdict = "behind-pending", behind+"which has not run yet."
	}
	return []Reason{r}, nil
}

// firstOfLine returns the first live ordered job of the job's group.
func (f *facts) firstOfLine(ctx context.Context) (first queue.Record, ok bool, err error) {
	if f.server != nil {
		var id int64
		err := f.server.rows(ctx, "first_of_line", func(r *sql.Rows) error { return r.Scan(&id) }, f.job.Queue, f.job.Group)
		if ok, err := f.tryOrNote(ctx, "which job of its group comes first", err); !ok || id == 0 {
			return first, false, err
		}
		return f.inspector.Job(ctx, id)
	}
	for _, status := range []queue.Status{queue.StatusRunning, queue.StatusHeld, queue.StatusPending} {
		isAll, err := f.list(ctx, queue.Filter{Queue: f.job.Queue, Group: f.job.Group, Status: status}, func(r queue.Record) bool {
			if r.Ordered && (!ok || r.ID < first.ID || r.Status == queue.StatusRunning) {
				first, ok = r, true
			}
			return status != queue.StatusRunning
		})
		if err != nil || ok && first.Status == queue.StatusRunning {
			return first, ok, err
		}
		if !isAll && status != queue.StatusRunning {
			f.unknown = append(f.unknown, "jobs of its group that are older than those that were read")
		}
	}
	return first, ok, nil
}

// maxPages is how many pages of a list Explain reads.
const maxPages = 10

// list calls see for the jobs that filter chooses, the newest first, until it returns false. isAll
// is whether there were no more.
func (f *facts) list(ctx context.Context, filter queue.Filter, see func(queue.Record) bool) (isAll bool, err error) {
	filter.Limit, filter.Bare = 1000, true
	if filter.Key != "" { // a bare list has no keys, and payloads may be long
		filter.Limit, filter.Bare = 20, false
	}
	for range maxPages {
		page, next, err := f.inspector.Jobs(ctx, filter)
		if err != nil {
			return false, err
		}
		for _, r := range page {
			if !see(r) {
				return false, nil
			}
		}
		if next == 0 {
			return true, nil
		}
		filter.Before = next
	}
	return false, nil
}

// limited returns the limits that are reached, of the queue and of the job's group.
func (f *facts) limited(ctx context.Context) (reasons []Reason, err error) {
	j := f.job
	queueRule, groupRule := f.rule(""), f.rule(j.Group)
	if n := queueRule.Running; n > 0 {
		runs, oldest, err := f.countRunning(ctx, queue.Filter{Queue: j.Queue}, n)
		if err != nil {
			return nil, err
		}
		if runs >= n {
			reasons = append(reasons, Reason{ID: "queue-limit", Level: Warn, Verdict: fmt.Sprintf("The queue %s is at its limit of %d running jobs.", j.Queue, n),
				Evidence: oldest, Remedy: "wait, or raise Running in the rule of the queue"})
		}
	}
	perGroup := queueRule.PerGroup
	if j.Group != "" && groupRule.PerGroup != 0 {
		perGroup = groupRule.PerGroup
	}
	if j.Group != "" && perGroup > 0 {
		runs, oldest, err := f.countRunning(ctx, queue.Filter{Queue: j.Queue, Group: j.Group}, perGroup)
		if err != nil {
			return nil, err
		}
		if runs >= perGroup {
			reasons = append(reasons, Reason{ID: "group-limit", Level: Warn, Verdict: fmt.Sprintf("The group %q of the queue %s is at its limit of %d running jobs.", j.Group, j.Queue, perGroup),
				Evidence: oldest, Remedy: "wait, or raise PerGroup in the rule of the queue or the group"})
		}
	}
	return reasons, nil
}

// rule returns the rule of a group of the job's queue, or of the queue for "".
func (f *facts) rule(group string) queue.Rule {
	for _, r := range f.rules {
		if r.Queue == f.job.Queue && r.Group == group {
			return r
		}
	}
	return queue.Rule{}
}

// countRunning counts running jobs up to most, and says which have run longest.
func (f *facts) countRunning(ctx context.Context, filter queue.Filter, most int) (n int, longest []string, err error) {
	filter.Status = queue.StatusRunning
	var oldest []queue.Record
	_, err = f.list(ctx, filter, func(r queue.Record) bool {
		n++
		oldest = append(oldest, r)
		slices.SortFunc(oldest, func(a, b queue.Record) int { return a.StartedAt.Compare(b.StartedAt) })
		oldest = oldest[:min(len(oldest), 3)]
		return n < most
	})
	for _, r := range oldest {
		longest = append(longest, fmt.Sprintf("job %d of worker %s runs for %v", r.ID, r.Worker, short(f.at.Sub(r.StartedAt))))
	}
	return n, longest, err
}

// manyAhead is how many jobs Explain counts before the job.
const manyAhead = 1000

// ahead returns how many due jobs come before the job.
func (f *facts) ahead(ctx context.Context) ([]Reason, error) {
	j := f.job
	if j.Ordered { // the groups take turns
		return nil, nil
	}
	n := 0
	if f.server != nil {
		err := f.server.rows(ctx, "ahead", func(r *sql.Rows) error { return r.Scan(&n) }, j.ID)
		if ok, err := f.tryOrNote(ctx, "how many jobs come before it", err); !ok {
			return nil, err
		}
	} else {
		_, err := f.list(ctx, queue.Filter{Queue: j.Queue, Status: queue.StatusPending}, func(r queue.Record) bool {
			if !r.Ordered && r.ID != j.ID && !r.ScheduledAt.After(f.at) && isBefore(r, *j) {
				n++
			}
			return n <= manyAhead
		})
		if err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	many := fmt.Sprint(n)
	if n > manyAhead {
		many = fmt.Sprintf("more than %d", manyAhead)
	}
	return []Reason{{ID: "jobs-ahead", Level: levelOf(n, 100, 1<<30), Verdict: fmt.Sprintf("%s due jobs of the queue %s come before job %d.", many, j.Queue, j.ID),
		Evidence: []string{fmt.Sprintf("it has been due for %v, with the priority %d", short(f.at.Sub(j.ScheduledAt)), j.Priority)},
		Remedy:   "wait; or add workers, or give urgent jobs a lower Priority or a queue of their own"}}, nil
}

// isBefore reports whether a claim takes a before b.
func isBefore(a, b queue.Record) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	if !a.ScheduledAt.Equal(b.ScheduledAt) {
		return a.ScheduledAt.Before(b.ScheduledAt)
	}
	return a.ID < b.ID
}

// soon is within which time a worker that was not woken claims a due job: its Poll, and a claim.
const soon = 10 * time.Second

// unexplained returns the reason for a due job that nothing known keeps from running.
func (f *facts) unexplained() Reason {
	j := f.job
	waits := f.at.Sub(j.ScheduledAt)
	due := fmt.Sprintf("it became due at %s, by the database's clock", j.ScheduledAt.Format(time.RFC3339))
	if waits < soon {
		return Reason{ID: "just-due", Level: OK, Verdict: fmt.Sprintf("Job %d has been due for %v: the next claim takes it.", j.ID, short(waits)), Evidence: []string{due},
			Remedy: "ask again in ten seconds"}
	}
	r := Reason{ID: "unexplained", Level: Fail, Verdict: fmt.Sprintf("Job %d has been due for %v, and nothing that is known keeps it from running.", j.ID, short(waits)),
		Evidence: append([]string{due, "it is neither paused, locked, limited nor behind other jobs"}, f.idle...),
		Remedy:   "ask again in ten seconds. If it says the same, look at the workers' logs, and report a bug of errand with this answer"}
	if !f.knowsWorkers {
		r.Remedy = "look whether a worker runs that serves the queue " + j.Queue + " and handles the kind " + j.Kind + ", and whether its log has errors of claims"
	}
	return r
}
