package driver

import (
	"context"
	"database/sql"
	"log/slog"
	"reflect"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
)

// As returns v as a T, usually a capability such as [Waiter]. If v is not a T, As looks in the
// value that v wraps: it follows methods Unwrap that return a Queue, an [queue.Enqueuer], a
// [queue.Consumer] or a [queue.Handler], and asks a [Delegator]. ok is false if no value of the
// chain is a T, and for a v that is nil or a nil pointer.
func As[T any](v any) (t T, ok bool) {
	var asked any
	for !check.IsNil(v) {
		if d, isDelegator := v.(Delegator); isDelegator && v != asked {
			v = d.Delegate(reflect.TypeFor[T]())
			asked = v
			continue
		}
		if t, ok = v.(T); ok {
			return t, true
		}
		switch u := v.(type) {
		case interface{ Unwrap() queue.Queue }:
			v = u.Unwrap()
		case interface{ Unwrap() queue.Enqueuer }:
			v = u.Unwrap()
		case interface{ Unwrap() queue.Consumer }:
			v = u.Unwrap()
		default:
			return t, false
		}
	}
	return t, false
}

// Delegator is a value that stands for several backends, and has a capability only if they have it.
type Delegator interface {
	// Delegate returns the value in which [As] looks for a type: itself, another one, or nil if it
	// does not have that capability.
	Delegate(capability reflect.Type) any
}

// Waiter is a backend that can wake a sleeping worker when jobs arrive. A worker whose claim comes
// back empty calls Sleep, claims once more, and then sleeps until the backend wakes it, the next
// job is due, or Poll has passed. The poll finds jobs whose wake-up was missed. Both methods may be
// called concurrently.
type Waiter interface {
	// Listen calls wake when a job of the queues may have become due since worker last called
	// Sleep, or when the next job is due at a different time than Sleep returned. It blocks until
	// ctx ends; worker does not call Sleep after that. Then it forgets the announcement of Sleep,
	// within a few seconds, and returns nil. If its connection breaks, it reconnects by itself and
	// calls wake. wake does not block and may be called concurrently. An error means that the
	// backend cannot wake workers: the worker polls.
	Listen(ctx context.Context, worker string, queues []string, wake func()) error

	// Sleep announces that worker is about to sleep. The announcement is valid until Listen has
	// called worker's wake, and for at most a minute; worker repeats it before that. Sleep returns
	// how long until the next scheduled job of the queues is due, or less if it should be called
	// again sooner. Below 0 means that no job is scheduled. Sleep does not wait for jobs.
	Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error)
}

// ListenChecker is a [Waiter] that can tell whether it hears of jobs at the moment.
type ListenChecker interface {
	// CheckListen returns why the running Listen of worker, or of any worker of the backend, cannot
	// wake it: the error with which connecting has failed since it last worked. It returns nil while
	// Listen works, and before its first attempt has ended. The worker asks each second; while there
	// is an error, it logs it and polls. CheckListen does not block, and may be called concurrently.
	CheckListen(worker string) error
}

// Checker is a backend that can tell whether it is able to serve.
type Checker interface {
	// Check asks the database for the version of its schema. It changes nothing. It returns an error
	// if the database does not answer until ctx ends, and a [*queue.SetupError] if the schema is
	// missing, older than this program needs, or newer than it knows ([queue.ErrNewer]). It may be
	// called concurrently.
	Check(ctx context.Context) error
}

// Inspector is a backend whose jobs a program can list. Its methods may be called concurrently.
type Inspector interface {
	// Counts returns the number of jobs of each queue and status, ordered by queue and then by
	// status, without zeros. It stays fast with any number of jobs.
	Counts(ctx context.Context) ([]queue.StatusCount, error)
	// Jobs returns a page of jobs, which is never nil without an error. next is the Before of the
	// next page, or 0 for the last page. A page that is not the last may have fewer jobs than
	// Limit, or none: if no index serves the filter, Jobs reads a bounded number of jobs a call. A
	// bad filter is an [*queue.InvalidError].
	Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error)
	// Job returns the job with that ID. ok is false if there is none.
	Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error)
}

// Backlog is the state of a queue with due jobs that wait.
type Backlog struct {
	Queue string        `json:"queue"`
	Age   time.Duration `json:"age_ns"` // how long ago the job that has waited longest became due
}

// Backlogger is a backend that reports how far its workers are behind.
type Backlogger interface {
	// Backlogs returns one Backlog for each queue with due jobs, ordered by queue. Ages are by the
	// backend's clock. It stays fast with any number of jobs, and may be called concurrently.
	Backlogs(ctx context.Context) ([]Backlog, error)
}

// Redriver is a backend that can make dead, cancelled and held jobs pending again.
type Redriver interface {
	// Redrive makes the chosen dead jobs pending and due now, through db: a transaction, whose commit
	// makes it take effect, or nil for the backend's own handle. If which.Status is
	// [queue.StatusCancelled] or [queue.StatusHeld], it does so with cancelled or held jobs instead.
	// They have no attempts used and no last error, and their Redrives count it. Redrive returns how
	// many there were. A job stays as it is if another live job holds its Key. A bad Selection is an
	// [*queue.InvalidError]; its Status may be [queue.StatusDead], [queue.StatusCancelled] or
	// [queue.StatusHeld]. For an ID, 0 means that there is no such job, that it does not have that
	// status, or that a live job holds its Key: [Inspector].Job tells which.
	//
	// Through nil or a pool, Redrive changes a thousand jobs a statement, as [Canceller] does. It may
	// be called concurrently.
	Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)
}

// Editor is a backend that can change jobs that wait.
type Editor interface {
	// Edit changes the chosen jobs that are pending or held, through db: a transaction, whose commit
	// makes it take effect, or nil for the backend's own handle. It returns how many it has changed,
	// and leaves all other jobs alone. Workers are woken for jobs that are due. A job stays as it is
	// if it would move to a queue in which a live job holds its Key. A bad Selection or JobChange is
	// an [*queue.InvalidError]; the Status of which may be [queue.StatusPending] or
	// [queue.StatusHeld].
	//
	// Through nil or a pool, Edit changes a thousand jobs a statement, as [Canceller] does. It may be
	// called concurrently.
	Edit(ctx context.Context, db queue.DB, which queue.Selection, change queue.JobChange) (n int, err error)
}

// Deleter is a backend that can delete jobs that do not run.
type Deleter interface {
	// Delete deletes the chosen jobs that do not run, with their results, through db: a transaction,
	// whose commit makes it take effect, or nil for the backend's own handle. It returns how many
	// there were. Nothing is left of them, not in an archive either. Their Keys are free, and the
	// ordered jobs behind them go on. A running job stays: cancel it first. A bad Selection is an
	// [*queue.InvalidError]; its Status may be any but [queue.StatusRunning]. "" means all of these,
	// pending and completed jobs among them.
	//
	// Through nil or a pool, Delete deletes a thousand jobs a statement, as [Canceller] changes them,
	// and at last waits for the jobs that other transactions have locked. Without IDs it finds
	// completed jobs by reading the whole table. It may be called concurrently.
	Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)
}

// Auditor is a backend that keeps what people and programs have done to jobs. It only appends: the
// log is never changed or pruned. Its methods may be called concurrently.
type Auditor interface {
	// Audit appends entries in their order, through db: a transaction, whose commit makes them valid
	// together with the action, or nil for the backend's own handle. A bad entry (see
	// [queue.AuditEntry.Check]) is an [*queue.InvalidError], and then nothing is written.
	Audit(ctx context.Context, db queue.DB, entries ...queue.AuditEntry) error
	// AuditLog returns a page of entries, newest first. next is the Before of the next page, or 0 for
	// the last page. A bad filter is an [*queue.InvalidError].
	AuditLog(ctx context.Context, f queue.AuditFilter) (page []queue.AuditEntry, next int64, err error)
}

// Canceller is a backend that can cancel jobs. Its methods may be called concurrently.
type Canceller interface {
	// Cancel cancels the chosen jobs that are live, through db: a transaction, whose commit makes it
	// take effect, or nil for the backend's own handle. It returns how many it has cancelled or asked.
	// Pending and held jobs are cancelled at once. Running ones are asked: their workers are told, and
	// the contexts of their handlers end with [queue.ErrCancelled]. Until its handler has returned,
	// such a job stays running, with its Key and its Fence. Then it is completed if the handler has
	// returned nil, dead if it has returned [queue.Discard], and cancelled otherwise. If its worker
	// crashes, Reclaim cancels it.
	//
	// A worker learns of it at once if the backend notifies it, and otherwise with its next heartbeat,
	// within a third of its lease. A job that is cancelled frees its Key, and Redrive can make it
	// pending again. A bad Selection is an [*queue.InvalidError]; its Status may be
	// [queue.StatusPending], [queue.StatusHeld] or [queue.StatusRunning].
	//
	// Through nil or a pool, Cancel changes a thousand jobs a statement. If it fails or ctx ends, the
	// jobs of earlier statements stay cancelled, and n counts them. At last it waits, one job at a
	// time, for the jobs that other transactions have locked.
	Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)

	// ListenCancels calls hint with the IDs of jobs that worker may be asked to cancel, or with none
	// if it cannot tell which, until ctx ends. The worker then asks with Extend, whose answer
	// counts. hint does not block and may be called concurrently. An error means that the backend
	// notifies nobody: the worker learns of it with its heartbeats.
	ListenCancels(ctx context.Context, worker string, hint func(ids ...int64)) error
}

// Pauser is a backend that keeps which kinds are paused. Its methods may be called concurrently. To
// pause a queue or a group, see [Ruler].
type Pauser interface {
	// PauseKinds makes workers claim no more jobs of these kinds, in all queues, through db: a
	// transaction, whose commit makes it take effect, or nil for the backend's own handle. Jobs that
	// run go on, and jobs can be enqueued. Workers that the backend notifies know at once, and all
	// other workers within five seconds, or their Poll if that is longer. A worker without a
	// [queue.Mux] claims every kind, also the paused ones. A kind that is paused already stays paused.
	// A bad name is an [*queue.InvalidError].
	PauseKinds(ctx context.Context, db queue.DB, kinds ...string) error
	// ResumeKinds ends the pause of these kinds, and wakes their workers.
	ResumeKinds(ctx context.Context, db queue.DB, kinds ...string) error
	// PausedKinds returns the paused kinds in alphabetical order.
	PausedKinds(ctx context.Context) ([]string, error)
	// ListenPauses calls changed when the paused kinds may have changed, until ctx ends. changed does
	// not block. An error means that the backend notifies nobody.
	ListenPauses(ctx context.Context, changed func()) error
}

// Pruner is a backend that deletes or archives ended jobs after their retention.
type Pruner interface {
	// Prune reads a bounded number of jobs and removes the jobs whose retention is over. Calls go from
	// the oldest jobs to younger ones. more is true while the pass continues with the next call. A
	// pass may end early, because it has found nothing to remove for a while or because a different
	// process is pruning. The next pass continues there.
	Prune(ctx context.Context) (removed int, more bool, err error)
}

// Reclaimer is a backend whose workers reclaim jobs. A backend without it reclaims jobs by itself.
type Reclaimer interface {
	// Reclaim reclaims at most limit jobs whose leases have expired, and returns them without Payload
	// and Headers. Such a job is pending and due at once, or dead if Attempt has reached MaxAttempts.
	// Its LastError is "errand: the lease of worker NAME expired". A job that its worker was asked to
	// cancel is cancelled instead, and its LastError is [ReclaimedCancelled]. If the run before
	// was reclaimed as well, Reclaim may wait for up to half a lease longer, and from the fourth
	// attempt on for up to three leases. If the clock by which leases end has jumped forward since the
	// call before, leases that began before the jump end later by as much. A limit below 1 is an
	// [*queue.InvalidError]. A backend that stands for several returns a [*PartialError] with the jobs
	// of the backends that have not failed. It may be called concurrently.
	Reclaim(ctx context.Context, limit int) ([]*queue.Job, error)
}

// DeathTeller is a backend that is no [Reclaimer] to its workers, because it reclaims jobs by
// itself, or one that stands for several, of which some are no Reclaimer.
type DeathTeller interface {
	// Deaths returns the jobs of the queues that the backend has reclaimed in their last attempt, as
	// Reclaim does, and that no earlier call has returned. A worker with an OnDead calls it about
	// every quarter of its Lease. The backend may forget a job that nobody has asked for. Deaths may
	// return jobs together with an error.
	Deaths(ctx context.Context, queues []string) ([]*queue.Job, error)
}

// Reassigner is a backend that can give claimed jobs to other workers, for a program that claims
// for many workers at once, as a gateway does.
type Reassigner interface {
	// Reassign makes workers[i] the holder of jobs[i] instead of its Worker, and sets its Worker to
	// that. The fences and the leases stay. It returns the jobs for which it has not done so: their
	// Worker does not hold them, or a transaction has locked them. After an error it is not known who
	// holds the jobs, and no Worker is changed. It does not wait for locked jobs. A worker's name that
	// [queue.ClaimRequest] does not allow is an [*queue.InvalidError], and so are more or fewer names
	// than jobs. It may be called concurrently.
	Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) (left []*queue.Job, err error)
}

// Upkeeper is a backend that has work of its own to do while a worker runs, such as to forward the
// jobs of an outbox.
type Upkeeper interface {
	// Upkeep does that work until ctx ends, stops in the time that o allows, and returns nil, or an
	// error if something is left undone, such as a call of OnDead that goes on; then Run returns it.
	// It returns earlier if there is nothing to do, or an error if it cannot be done; the worker logs
	// it. A worker calls it once, in a goroutine of its own, and waits for its end. It may be called
	// concurrently.
	Upkeep(ctx context.Context, o UpkeepOptions) error
}

// UpkeepOptions is what [Upkeeper] uses of the worker that calls it.
type UpkeepOptions struct {
	// Logger is the [engine.Worker.Logger]. nil means [slog.Default].
	Logger *slog.Logger
	// Grace and Halt are the worker's ([engine.Worker]), for calls that run when ctx ends. Grace 0
	// means 20 s, and below 0 is an error.
	Grace time.Duration
	Halt  <-chan struct{}
	// OnDead is the worker's [engine.Worker.OnDead]. It is called for jobs that Upkeep reclaims or
	// makes dead, by the same rules. nil means that such jobs are only logged.
	OnDead func(ctx context.Context, job *queue.Job, err error)
	// Observe is the [engine.Worker.Observe]. It is called for the same jobs. nil means that nothing
	// is called.
	Observe func(queue.Event)
}

// TxClaimer is a backend that can claim a job without a lease, in the transaction that does the
// work.
type TxClaimer interface {
	// ClaimTx claims one job within tx, the caller's transaction. The commit completes the job. It
	// returns nil if no job is due. It does not use req.Lease, req.Limit and req.Worker, which may
	// be zero. The job is locked, and invisible to other claims, until the transaction ends, also
	// if it is a prepared one. If tx is not a transaction, or does not show that it is one (see
	// [queue.DB]), the error is an [*queue.InvalidError].
	//
	// To record that the work has failed, settle the job in the same transaction, with Retry, Dead
	// or Release, and commit. If the work has written something, set a savepoint after ClaimTx and
	// roll back to it first. Then the attempt counts, and MaxAttempts holds.
	//
	// After a rollback or a crash the job is pending again at once, as if it had never been
	// claimed. That counts no attempt, and nothing limits how often it happens: a job that ends its
	// process is claimed again each time. If jobs may do that, use Claim, which has a lease. After
	// the end of the transaction nobody holds the job, and Settle reports it lost.
	ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error)
}

// Pooled is a backend that takes its connections from the caller's [sql.DB], which may limit them.
type Pooled interface {
	// Reserve notes that the handlers of a worker may hold n connections of each of dbs at once, until
	// the caller calls release. It returns how many connections are then left for calls of the
	// backend, without the listener's connection and the connections that other workers of this
	// backend have reserved. Below 1 means none. It does not wait, and may be called concurrently.
	Reserve(n int, dbs ...*sql.DB) (left int, release func())
}

// TxBeginner is a backend whose database lets only one transaction write at a time, as SQLite does.
// Calls of the backend that write take turns. A handler's transaction takes a turn with BeginTx.
// Then no call of the backend competes with it for the database's lock, and Extend has its turn
// before the next such transaction.
type TxBeginner interface {
	// BeginTx waits for its turn, at most until ctx ends, and begins a transaction on db. db is a
	// handle of the backend's database, or nil for the backend's own. As with [sql.DB.BeginTx], the
	// transaction ends with ctx. end ends the turn: call it after the commit or the rollback. It
	// rolls back a transaction that is still open, and further calls of it do nothing. Until end is
	// called, calls of the backend that write wait, except through tx.
	BeginTx(ctx context.Context, db *sql.DB, o *sql.TxOptions) (tx *sql.Tx, end func(), err error)
}

// Scheduler is a backend that keeps [queue.Schedule]s. Changes go through db: the caller's
// transaction, whose commit makes them take effect, or nil for the backend's own handle. Workers
// notice a change within seconds. Its methods may be called concurrently, also with
// [ScheduleRunner]'s.
type Scheduler interface {
	// SetSchedules adds schedules, and replaces schedules with the same name. Their next ticks follow
	// now: a change fires nothing, and no tick twice. Bad input (see [CheckSchedules]) is an
	// [*queue.InvalidError], and nothing is changed.
	SetSchedules(ctx context.Context, db queue.DB, schedules ...queue.Schedule) error
	// PauseSchedules pauses the named schedules, or resumes them if paused is false. A resumed
	// schedule goes on with the first tick after now. It returns how many it has changed. A name that
	// no schedule can have is an [*queue.InvalidError].
	PauseSchedules(ctx context.Context, db queue.DB, paused bool, names ...string) (n int, err error)
	// DeleteSchedules deletes the named schedules and returns how many there were. Jobs that they
	// have enqueued stay. A schedule that code has declared stays deleted until the code changes.
	// Bad names are an error as with PauseSchedules.
	DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error)
	// Schedules returns all schedules, ordered by name. Of a Job that the backend's role may not read
	// it returns the Kind and the Queue.
	Schedules(ctx context.Context) ([]queue.ScheduleRecord, error)
}

// ScheduleRunner is a [Scheduler] for programs: they declare the schedules of their code, and their
// workers fire them.
type ScheduleRunner interface {
	// DeclareSchedules writes the schedules of a program's code. A program calls it at each start.
	// It adds a schedule that there is not, and replaces one whose text in the code has changed
	// since it was last declared. What a person has edited, paused or deleted meanwhile stays if
	// the text has not changed. If the text has changed, a person's pause stays nevertheless. A
	// release leaves alone what a higher Release has declared. It returns how many schedules it has
	// changed. Otherwise it is like SetSchedules.
	DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error)
	// FireSchedules enqueues the jobs of the schedules whose next tick has come. It may leave some of
	// the schedules, or some of the missed ticks of one, to the next call, and then returns a next of
	// 0. It returns how many it has fired, and how long until the next tick, or less than 0 if the
	// backend knows of none. A worker calls it at that time, after each call of Sleep, and every few
	// seconds. Sleep can look for schedules, too, so that FireSchedules can answer from memory. A
	// schedule that cannot be fired does not keep other schedules from being fired. The error names
	// it. It also names a schedule that was fired where [queue.Schedule.CheckTick] returns an error.
	FireSchedules(ctx context.Context) (fired int, next time.Duration, err error)
}

// Ruler is a backend that keeps [queue.Rule]s. Its methods may be called concurrently.
type Ruler interface {
	// SetRules sets the rules of the queues and groups that are named, through db: a transaction,
	// whose commit makes them valid, or nil for the backend's own handle. Other rules stay as they
	// are. Of two rules for one group the last counts. Claims that begin after the commit keep the
	// new rules; jobs that run beyond a lower limit go on. SetRules wakes sleeping workers of the
	// queues. It waits for a transaction that sets rules, until that ends. A bad rule (see
	// [queue.Rule.Check]) is an [*queue.InvalidError], and then nothing is changed.
	//
	// SetRules can begin a pause and ends none, so a program may set its rules at each start.
	SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error
	// Rules returns all rules, ordered by queue and group.
	Rules(ctx context.Context) ([]queue.Rule, error)
	// PauseQueue makes workers claim no more jobs of the queue, or resumes it if paused is false. It
	// changes nothing else of the queue's rule, and works through db as SetRules does. It does not
	// resume groups that are paused. Jobs that run go on, and jobs can be enqueued. A bad name is an
	// [*queue.InvalidError], also "".
	PauseQueue(ctx context.Context, db queue.DB, queue string, paused bool) error
	// PauseGroup does the same for one group of the queue.
	PauseGroup(ctx context.Context, db queue.DB, queue, group string, paused bool) error
}

// RateTeller is a [Ruler] that tells when its rates have tokens again.
type RateTeller interface {
	// RateWaits returns what the rates of a queue have left: of each named group that has a rate, and
	// of the queue itself for "". It changes nothing. Rules that another transaction has not committed
	// do not count. It may be called concurrently.
	RateWaits(ctx context.Context, queue string, groups ...string) ([]RateWait, error)
}

// ResultKeeper is a backend that keeps the output and the progress of jobs, in a place of their
// own. It records the Output of an [queue.Outcome] together with the outcome, and removes both
// together with the job. Its methods may be called concurrently.
type ResultKeeper interface {
	// KeepProgress records the progress of jobs. It ignores jobs that the caller does not hold.
	KeepProgress(ctx context.Context, progress ...queue.Progress) error
	// Result returns how far the job is and what it has returned. ok is false if there is no such
	// job: it was never committed, or it has been pruned.
	Result(ctx context.Context, id int64) (r queue.Result, ok bool, err error)
}

// Fleet is a backend that knows its workers. A [engine.Worker] reports itself a second after it has
// started, and then every [ReportInterval]. So what Fleet returns is up to ten seconds old.
// Its methods may be called concurrently.
type Fleet interface {
	// ReportWorkers records what workers tell about themselves, each in the place of its last report.
	// Where Stopped is true, it removes the worker's record instead. Of several reports of one worker
	// the last one counts. A [Statistician] also adds the Stats of all reports to its statistics, in
	// the same step. It costs one statement or transaction, at most two. Without reports it does
	// nothing. If a report is bad (see [WorkerReport.Check]), the error is an [*queue.InvalidError],
	// and no report is recorded.
	ReportWorkers(ctx context.Context, reports ...WorkerReport) error
	// Workers returns all workers that have reported themselves and have not stopped, ordered by name,
	// also the vanished ones. A worker that has been silent for [ForgottenAfter] may be left
	// out: [Pruner].Prune removes it.
	Workers(ctx context.Context) ([]WorkerRecord, error)
	// Runs returns the jobs that the named workers hold, or the jobs of all workers if none is named:
	// at most most of each worker, the jobs that were claimed first. They are ordered by worker, Since
	// and ID. A holder that never reports itself counts as well. Runs reads the rows of all jobs that
	// run. If most is below 1 or above [MaxRuns], the error is an [*queue.InvalidError].
	Runs(ctx context.Context, most int, workers ...string) ([]RunningJob, error)
}

// Tabled is a backend whose jobs are in tables of a SQL database. Package ops asks that database
// what no other interface tells: locks, settings, the state of the server.
type Tabled interface {
	// Tables says where the tables are. It does not touch the database.
	Tables() Tables
}

// Served is a backend whose jobs are in servers that are no SQL database, such as Redis. Package
// ops judges what they tell. The methods change nothing, and may be called concurrently.
type Served interface {
	// Servers asks all servers that the backend knows at once, and returns what they tell, ordered by
	// address. A server that does not answer within a second or two has an Err.
	Servers(ctx context.Context) ([]ServerRecord, error)
	// Leftovers returns what workers should have removed or taken back. It asks for a bounded number
	// of jobs.
	Leftovers(ctx context.Context) (Leftovers, error)
}

// Tables says where the tables of a backend are.
type Tables struct {
	// DB is the backend's own handle. The caller of the backend's New closes it.
	DB *sql.DB
	// Dialect is "postgres" or "sqlite".
	Dialect string
	// Schema is the schema of the tables on PostgreSQL. On SQLite it is what their names begin with.
	Schema string
	// Version is the number of the newest migration that the program knows.
	Version int
	// Retention says how long ended jobs are kept, with its defaults.
	Retention queue.Retention
}

// Statistician is a [Fleet] that adds up the Stats of its workers' reports, by minute, queue and
// kind, and keeps them for [StatsKept]. Workers count only if the backend is one.
type Statistician interface {
	// Stats returns how many runs ended in which way, ordered by At, Queue and Kind. It leaves out
	// times without runs. The last ten seconds may be missing. A bad filter (see
	// [queue.StatsFilter.Check]) is an [*queue.InvalidError]. It may be called concurrently.
	Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error)
}

// Receiver is a backend that takes over jobs of a different backend: the jobs of an outbox, or of a
// queue that moves.
type Receiver interface {
	// Receive enqueues the jobs of transfers through the backend's own handle, all of them or none. A
	// backend over several partitions may enqueue some of them and return ErrUnknown. Receive leaves
	// out each job with a Source that it has received within [TransferWindow], so a call may be
	// repeated after any error, ErrUnknown included. Of several transfers with one Source it takes the
	// first. It remembers a Source in the same step in which it enqueues the job.
	//
	// What Enqueue does with a job, Receive does as well: its Key, OnDuplicate and due time mean the
	// same, and it fills in ID, Duplicate and Replaced; for a job that is left out these three mean
	// nothing. A job that is written anew keeps its CreatedAt, unless that is zero, and its Attempt
	// and LastError.
	//
	// It returns how many jobs it has not left out. Bad input (see [Transfer.Check]) is an
	// [*queue.InvalidError], and then no job is written. It may be called concurrently.
	Receive(ctx context.Context, transfers ...Transfer) (received int, err error)
}
