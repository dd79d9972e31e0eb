package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// whyRunning returns what a running job does.
func whyRunning(ctx context.Context, q *inquiry) ([]Reason, error) {
	j := q.job
	ran := max(q.at.Sub(j.StartedAt), 0) // the job may have started since f.at was read
	evidence := []string{
		fmt.Sprintf("the worker %s has had it since %s, in attempt %d of %d", j.Worker, j.StartedAt.Format(time.RFC3339), j.Attempt, j.MaxAttempts),
	}
	if !j.LeaseEnds.After(j.LockedAt) {
		return []Reason{whyWithoutLease(q, evidence)}, nil
	}
	evidence = append(evidence, fmt.Sprintf("its lease was taken or extended %v ago, for %v", words.Short(max(q.at.Sub(j.LockedAt), 0)), words.Short(j.LeaseEnds.Sub(j.LockedAt))))
	holder, isKnown := findWorker(q, j.Worker)
	if lost, err := whyLost(ctx, q, holder, isKnown, evidence); err != nil || len(lost) > 0 {
		return lost, err
	}
	if isKnown {
		evidence = append(evidence, lastSeen(holder))
	}
	if reasons, err := whyRefused(ctx, q, holder, evidence); err != nil || len(reasons) > 0 {
		return reasons, err
	}
	if more := holder.RefusedCount - len(holder.Refused); more > 0 {
		evidence = append(evidence, fmt.Sprintf("its worker cannot record the outcomes of %s, whose handlers have returned: perhaps it is one of them", words.Count(more, "other job")))
	}
	if isKnown && holder.Waiting > 0 {
		evidence = append(evidence, fmt.Sprintf("its worker has claimed %s ahead, which wait for a handler to end: perhaps it is one of them", words.Count(holder.Waiting, "job")))
	}
	if !j.CancelAt.IsZero() {
		asked, lease := q.at.Sub(j.CancelAt), j.LeaseEnds.Sub(j.LockedAt)
		by, err := nameCanceller(ctx, q)
		r := Reason{ID: "cancel-asked", Level: words.LevelOf(asked, time.Minute, time.Hour), Evidence: append(evidence, by...),
			Verdict: fmt.Sprintf("Job %d was cancelled %v ago, and its handler has not returned yet.", j.ID, words.Short(asked)),
			Remedy:  "wait: the worker learns of it within a third of its lease. The handler has to return when its context ends; the worker's log names handlers that do not"}
		if asked > lease/3+ignores {
			process := "the process of the worker " + j.Worker
			if isKnown {
				process = fmt.Sprintf("process %d on host %s (kill %d)", holder.PID, holder.Host, holder.PID)
			}
			r.Remedy = fmt.Sprintf("its handler ignores that its context has ended, so nothing but the end of its process ends it: end %s. Then the job is cancelled when its lease ends; what else runs there starts elsewhere", process)
		}
		return []Reason{r}, err
	}
	long, why, err := judgeLongRun(ctx, q, ran)
	if err != nil || ran <= long {
		return []Reason{{ID: "running", Level: ops.OK, Evidence: evidence, Verdict: fmt.Sprintf("Job %d has been running for %v.", j.ID, words.Short(ran))}}, err
	}
	return []Reason{{ID: "runs-long", Level: ops.Warn, Evidence: append(evidence, why), Verdict: fmt.Sprintf("Job %d has been running for %v, which is long.", j.ID, words.Short(ran)),
		Remedy: fmt.Sprintf("look at its handler; give the kind %s a Timeout; %s asks the handler to end", j.Kind, q.Command("jobs", "cancel", j.ID))}}, nil
}

// whyRefused returns the reason if the job's handler has returned, and the backend refuses to
// record its outcome.
func whyRefused(ctx context.Context, q *inquiry, holder driver.WorkerRecord, evidence []string) ([]Reason, error) {
	i := slices.IndexFunc(holder.Refused, func(o driver.RefusedOutcome) bool { return o.ID == q.job.ID })
	if i < 0 {
		return nil, nil
	}
	o := holder.Refused[i]
	r := Reason{ID: "outcome-refused", Level: ops.Fail, Remedy: reader.AdviseRefused,
		Verdict:  fmt.Sprintf("The handler of job %d has returned, but its outcome has been refused for %v: %s.", q.job.ID, words.Short(o.Waited+holder.Silent), o.Error),
		Evidence: append(evidence, fmt.Sprintf("its worker cannot record the outcomes of %s", words.Count(holder.RefusedCount, "job")))}
	if q.job.CancelAt.IsZero() {
		return []Reason{r}, nil
	}
	by, err := nameCanceller(ctx, q)
	r.Verdict += fmt.Sprintf(" It was cancelled %v ago.", words.Short(q.at.Sub(q.job.CancelAt)))
	r.Evidence = append(r.Evidence, by...)
	return []Reason{r}, err
}

// ignores is how long after its context has ended a handler is taken for one that ignores this.
const ignores = 10 * time.Second

// whyLost returns why the job's worker does not extend its lease any more, or soon will not.
func whyLost(ctx context.Context, q *inquiry, holder driver.WorkerRecord, isKnown bool, evidence []string) ([]Reason, error) {
	j := q.job
	expired := q.at.Sub(j.LeaseEnds)
	switch {
	case expired >= 0:
		return unlessLocked(ctx, q, evidence, func() (Reason, error) { return whyExpired(ctx, q, expired, holder, isKnown) })
	case isKnown && holder.Vanished:
		return withCancel(ctx, q, Reason{ID: "holder-vanished", Level: ops.Warn, Evidence: append(evidence, describe([]driver.WorkerRecord{holder})...),
			Verdict: fmt.Sprintf("Job %d is held by a worker that has vanished.", j.ID),
			Remedy:  fmt.Sprintf("its lease ends in %v; then %s", words.Short(-expired), describeReclaimer(q))})
	case isKnown && q.isSilent(holder):
		return withCancel(ctx, q, Reason{ID: "holder-silent", Level: ops.Warn, Evidence: append(evidence, lastSeen(holder), reportsNeed),
			Verdict: fmt.Sprintf("Job %d is held by a worker that has been silent for %v: it was killed, hangs, or is cut off.", j.ID, words.Short(holder.Silent)),
			Remedy:  fmt.Sprintf("look at its process and log. If it stays silent, its lease ends in %v; then %s", words.Short(-expired), describeReclaimer(q))})
	}
	if held, lease := q.at.Sub(j.LockedAt), j.LeaseEnds.Sub(j.LockedAt); held > lease/2 {
		return unlessLocked(ctx, q, evidence, func() (Reason, error) { return whyUnextended(q, held, lease, holder, isKnown), nil })
	}
	return nil, nil
}

// unlessLocked returns who has locked the job, or all of them, and otherwise the reason that
// because returns: what its worker does not do.
func unlessLocked(ctx context.Context, q *inquiry, evidence []string, because func() (Reason, error)) ([]Reason, error) {
	locked, err := whyLockedByOthers(ctx, q)
	if err != nil || len(locked) > 0 && locked[0].ID != "perhaps-locked" {
		return locked, err
	}
	r, err := because()
	if err != nil {
		return nil, err
	}
	r.Evidence = append(evidence, r.Evidence...)
	reasons, err := withCancel(ctx, q, r)
	return append(reasons, locked...), err
}

// whyUnextended returns the reason for a lease that should have been extended, and has not ended
// yet.
func whyUnextended(q *inquiry, held, lease time.Duration, holder driver.WorkerRecord, isKnown bool) Reason {
	j := q.job
	r := Reason{ID: "holder-silent", Level: ops.Warn, Evidence: []string{fmt.Sprintf("a worker extends its leases every %v", words.Short(lease/3))},
		Verdict: fmt.Sprintf("Job %d is held by a worker that has not extended its lease for %v: it was killed, hangs, or is cut off.", j.ID, words.Short(held)),
		Remedy:  fmt.Sprintf("look at the process and the log of %s. If it stays silent, its lease ends in %v; then %s", j.Worker, words.Short(lease-held), describeReclaimer(q))}
	if isKnown && failsToExtend(q, holder) {
		r.Verdict = fmt.Sprintf("The lease of job %d was not extended for %v, although its worker reports itself: it does not extend its leases.", j.ID, words.Short(held))
		r.Evidence = append(describe([]driver.WorkerRecord{holder}), extendsNeed)
		r.Remedy = fmt.Sprintf("its lease ends in %v; then any live worker reclaims the job%s", words.Short(lease-held), adviseExtend(q))
	}
	return r
}

// extendsNeed is what keeps a live worker from extending its leases.
const extendsNeed = "a worker extends its leases every third of one, for which its pool needs a free connection"

// adviseExtend is what to do about a live worker that does not extend its leases.
func adviseExtend(q *inquiry) string {
	return ". Look for \"extend\" in the log of " + q.job.Worker + ": if all connections of its pool are in use, raise its limit, or lower Concurrency"
}

// listRescuers returns the live workers, without the one that holds the job.
func listRescuers(q *inquiry) []driver.WorkerRecord {
	return slices.DeleteFunc(reader.Living(q.workers), func(w driver.WorkerRecord) bool { return w.Name == q.job.Worker || q.isSilent(w) })
}

// describeReclaimer says who reclaims the job when its lease has ended.
func describeReclaimer(q *inquiry) string {
	if q.knowsWorkers && len(listRescuers(q)) == 0 {
		return "a worker has to reclaim the job, and no other one is alive: start one"
	}
	return "any live worker reclaims the job"
}

// whyLockedByOthers returns who has locked the job, or all of them: then its worker cannot extend
// the lease, and no worker can reclaim the job.
func whyLockedByOthers(ctx context.Context, q *inquiry) ([]Reason, error) {
	for _, look := range []func(context.Context, *inquiry) ([]Reason, error){whyTableLocked, whyRowLocked, whyWriteLocked} {
		if locked, err := look(ctx, q); err != nil || len(locked) > 0 {
			return locked, err
		}
	}
	return nil, nil
}

// reclaimedWithin is within how many leases after its end a lease is reclaimed, also that of a job
// whose worker has crashed several times. See driver.Reclaimer.
const reclaimedWithin = 4

// whyExpired returns the reason for a lease that ended so long ago: what is known of the worker
// that had it, and who will reclaim the job.
func whyExpired(ctx context.Context, q *inquiry, ago time.Duration, holder driver.WorkerRecord, isKnown bool) (r Reason, err error) {
	j := q.job
	lease := max(j.LeaseEnds.Sub(j.LockedAt), time.Second)
	within := fmt.Sprintf("within one more lease (%v)", words.Short(lease))
	if slices.ContainsFunc(j.History, func(h queue.Failure) bool { return strings.HasPrefix(h.Error, crashed) }) {
		within = fmt.Sprintf("within three more leases (%v), because it has crashed before", words.Short(3*lease))
	}
	r = Reason{ID: "lease-expired", Level: words.LevelOf(ago, 0, lease), Verdict: fmt.Sprintf("The lease of job %d expired %v ago: its worker has crashed, hangs or is cut off.", j.ID, words.Short(ago))}
	isAlive := isKnown && failsToExtend(q, holder)
	mayLive := isKnown && !isAlive && q.isReporting(holder)
	switch {
	case isAlive:
		r.Verdict = fmt.Sprintf("The lease of job %d expired %v ago, although its worker reports itself: it does not extend its leases.", j.ID, words.Short(ago))
		r.Evidence = append(describe([]driver.WorkerRecord{holder}), extendsNeed)
	case mayLive:
		r.Evidence = []string{lastSeen(holder) + ", before it had to extend the lease: it may have ended since", reportsNeed}
	case isKnown:
		r.Evidence = []string{lastSeen(holder), reportsNeed}
	case q.knowsWorkers:
		r.Evidence = []string{fmt.Sprintf("the worker %s does not report itself: it has stopped, or ended before its first report", j.Worker)}
	}
	others := listRescuers(q)
	switch {
	case !q.knowsWorkers:
		r.Remedy = "a live worker reclaims it " + within + ". Start a worker if none runs"
	case len(others) == 0 && !isAlive: // so nobody reclaims it
		r.Level, r.Remedy = ops.Fail, "no worker is alive to reclaim it: start one"
		if mayLive {
			r.Remedy = fmt.Sprintf("look whether process %d on host %s still runs. No other worker is alive to reclaim the job: start one", holder.PID, holder.Host)
			return r, nil
		}
		last, err := describeLastWorkers(ctx, q)
		r.Evidence = append(r.Evidence, last...)
		return r, err
	case ago > reclaimedWithin*lease:
		r.Level = ops.Fail
		r.Evidence = append(r.Evidence, describe(others)...)
		r.Remedy = "live workers should have reclaimed it: their logs say why that fails; " + q.Command("doctor") + " looks at the database"
	default:
		r.Remedy = fmt.Sprintf("a live worker reclaims it %s. Alive: %s", within, words.Count(max(len(others), 1), "worker"))
	}
	switch {
	case isAlive:
		r.Remedy += adviseExtend(q)
	case mayLive:
		r.Remedy += fmt.Sprintf(". Look whether process %d on host %s still runs", holder.PID, holder.Host)
	}
	return r, nil
}

// failsToExtend reports whether the job's worker lives and does not extend the lease: it has
// reported itself since it should have extended it, or would have if it could.
func failsToExtend(q *inquiry, holder driver.WorkerRecord) bool {
	due := q.job.LockedAt.Add(q.job.LeaseEnds.Sub(q.job.LockedAt) / 2) // and a margin
	return q.isReporting(holder) && (q.held.Explains(holder) || holder.SeenAt.After(due))
}

// withCancel adds to the reason why the job's worker does not end it that the job was cancelled:
// then it does not run again.
func withCancel(ctx context.Context, q *inquiry, r Reason) ([]Reason, error) {
	if q.job.CancelAt.IsZero() {
		return []Reason{r}, nil
	}
	by, err := nameCanceller(ctx, q)
	r.Verdict += fmt.Sprintf(" It was cancelled %v ago.", words.Short(q.at.Sub(q.job.CancelAt)))
	r.Evidence = append(r.Evidence, by...)
	r.Remedy += ". What reclaims it cancels it, instead of running it again"
	return []Reason{r}, err
}

// judgeLongRun returns how long a job of the kind may run before its handler is suspected to hang,
// and why: twice as long as nearly all of the kind's last runs, if the backend knows them. A job
// that has run shorter than alwaysShort is not worth asking for.
func judgeLongRun(ctx context.Context, q *inquiry, ran time.Duration) (long time.Duration, why string, err error) {
	long, why = usuallyShort, fmt.Sprintf("too few runs of the kind are known to compare with; most jobs take less than %s", plain.Duration(usuallyShort))
	if ran < alwaysShort {
		return long, why, nil
	}
	list, err := q.Stats(ctx, queue.StatsFilter{Kind: q.job.Kind, From: q.at.Add(-24 * time.Hour), Times: true})
	if ok, err := q.tryOrNote(ctx, "how long the kind usually runs", err); !ok {
		return long, why, err
	}
	var runs queue.Histogram
	for _, s := range list {
		runs = runs.Add(s.RunTimes)
	}
	if n := runs.Count(); n >= enoughRuns {
		p99 := runs.Quantile(0.99)
		long, why = max(2*p99, alwaysShort), fmt.Sprintf("99 %% of the %d runs of its kind in the last day took about %v at most", n, words.Short(p99))
	}
	return long, why, nil
}

// stale is how long after its claim a job without a lease is reclaimed.
const stale = 10 * time.Minute

// whyWithoutLease returns what a job does that a worker made of SQL statements has claimed.
func whyWithoutLease(q *inquiry, evidence []string) Reason {
	j := q.job
	held := q.at.Sub(j.LockedAt)
	who := j.Worker
	if who == "" {
		who = "the program with that SQL, which writes no name into locked_by"
	}
	return Reason{ID: "no-lease", Level: words.LevelOf(held, stale, 2*stale), Evidence: evidence,
		Verdict: fmt.Sprintf("Job %d was claimed %v ago by SQL that is not errand's, without a lease.", j.ID, words.Short(held)),
		Remedy:  fmt.Sprintf("look at %s; errand's workers reclaim it %v after its claim", who, plain.Duration(stale))}
}
