package child

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Contend is what a process does whose calls contend with those of others: random calls of every
// kind on the same jobs.
type Contend struct {
	Callers int           `json:"callers"` // how many call at once, each on its own connection
	Lasting time.Duration `json:"lasting"`
	First   int           `json:"first"` // the number of the first job that it enqueues
}

// The notes of the calls of one kind. The text is the kind, a slash, and one of these: Surfaced,
// and where, if the caller got a deadlock; Failed, and the error, if it got another error. The
// number is how many calls, the attempt how many jobs they concerned.
const (
	Went     = "went"
	Nothing  = "nothing"
	Surfaced = "deadlock"
	Failed   = "failed: "
)

// contender is one caller.
type contender struct {
	*self
	db   *sql.DB
	q    *postgres.Backend
	draw *rand.Rand
	name string // a worker's name; callers of all processes share it
	next func() int
}

// call makes one call and returns how many jobs it concerned.
type call func(c *contender, ctx context.Context) (jobs int, err error)

// Calls are the kinds of calls. Calls that take a transaction sometimes get one of the caller.
var Calls = []string{
	"claim", "claimtx", "complete", "cancel", "retry", "release", "mixed", "extend", "reclaim", "redrive", "redrive all", "prune", "enqueue", "enqueue keyed",
}

var calls = map[string]call{
	"claim":         (*contender).claim,
	"claimtx":       (*contender).claimTx,
	"complete":      settling(queue.Done),
	"cancel":        settling(queue.Dead),
	"retry":         settling(queue.Retry),
	"release":       settling(queue.Release),
	"mixed":         settling(queue.Done, queue.Dead, queue.Retry, queue.Release),
	"extend":        (*contender).extend,
	"reclaim":       (*contender).reclaim,
	"redrive":       (*contender).redrive,
	"redrive all":   (*contender).redriveAll,
	"prune":         (*contender).prune,
	"enqueue":       (*contender).enqueuePlain,
	"enqueue keyed": (*contender).enqueueKeyed,
}

// contend lets the callers call until the time is over.
func contend(ctx context.Context, s *self) error {
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(2 * s.Contend.Callers)
	db.SetMaxIdleConns(2 * s.Contend.Callers)
	q, err := postgres.New(db, postgres.Options{Retention: queue.Retention{Completed: 100 * time.Millisecond, Dead: time.Second}})
	if err != nil {
		return err
	}
	<-s.goAhead
	ctx, cancel := context.WithTimeout(ctx, s.Contend.Lasting)
	defer cancel()
	numbers := make(chan int)
	go func() {
		for n := s.Contend.First; ; n++ {
			numbers <- n
		}
	}()
	var all sync.WaitGroup
	for i := range s.Contend.Callers {
		// The purpose keeps this part's old name, because with another one a seed would draw other
		// calls.
		draw := seed.Source(s.Seed, "meddle", s.Name, i)
		c := &contender{s, db, q, draw, []string{"ann", "bob", "cyd"}[draw.IntN(3)], func() int { return <-numbers }}
		all.Go(func() { c.run(ctx) })
	}
	all.Wait()
	return nil
}

// result is a kind of call and how it ended.
type result struct{ kind, result string }

func (c *contender) run(ctx context.Context) {
	tally := make(map[result][2]int)
	for ctx.Err() == nil {
		kind := Calls[c.draw.IntN(len(Calls))]
		jobs, err := calls[kind](c, context.WithoutCancel(ctx))
		r := result{kind, Went}
		switch {
		case sqlState(err) == "40P01":
			r.result = Surfaced + ", " + whereOf(err)
		case err != nil:
			r.result = Failed + fmt.Sprintf("%.300s", err)
		case jobs == 0:
			r.result = Nothing
		}
		count := tally[r]
		tally[r] = [2]int{count[0] + 1, count[1] + jobs}
	}
	for r, count := range tally {
		exitOnError(c.ledger.Note(count[0], count[1], r.kind+"/"+r.result))
	}
}

// whereOf returns where the server says that an error occurred, without numbers.
func whereOf(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return digits.ReplaceAllString(refused.Where, "N")
	}
	return ""
}

var digits = regexp.MustCompile(`[0-9]+`)

func sqlState(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	return ""
}

// inTxOrOwn calls f on the queue's own connections, or in a transaction that does nothing else.
func (c *contender) inTxOrOwn(ctx context.Context, own bool, f func(db queue.DB) error) error {
	if own {
		return f(nil)
	}
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	time.Sleep(time.Duration(c.draw.IntN(2000)) * time.Microsecond) // locks are held meanwhile
	return tx.Commit()
}

func (c *contender) request() queue.ClaimRequest {
	return queue.ClaimRequest{
		Queues: []string{queue.DefaultQueue}, Limit: 1 + c.draw.IntN(40), Worker: c.name,
		Lease: time.Duration(1+c.draw.IntN(300)) * time.Millisecond,
	}
}

func (c *contender) claim(ctx context.Context) (int, error) {
	jobs, err := c.q.Claim(ctx, c.request())
	return len(jobs), err
}

// claimTx claims a job in a transaction, and completes it by a commit or releases it by a rollback.
func (c *contender) claimTx(ctx context.Context) (int, error) {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	job, err := c.q.ClaimTx(ctx, tx, c.request())
	if err != nil || job == nil || c.draw.IntN(2) == 0 {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return 1, c.ended(job)
}

// ended records that this caller has ended jobs.
func (c *contender) ended(jobs ...*queue.Job) error { return recordAll(jobs, c.ledger.Effect) }

const (
	runningSQL = `SELECT id, fence, locked_by, payload, attempts FROM errand.jobs
		WHERE status = 'running' AND ($2 = '' OR locked_by = $2) ORDER BY random() LIMIT $1`
	deadSQL = `SELECT id, fence, coalesce(locked_by, ''), payload, attempts FROM errand.jobs WHERE status = 'dead' ORDER BY random() LIMIT $1`
)

// queryJobs reads some jobs from the table, in random order, no matter which worker claimed them.
func (c *contender) queryJobs(ctx context.Context, query string, args ...any) (jobs []*queue.Job, err error) {
	rows, err := c.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		j := new(queue.Job)
		if err := rows.Scan(&j.ID, &j.Fence, &j.Worker, (*[]byte)(&j.Payload), &j.Attempt); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// settleable returns some running jobs. In a transaction of the caller all are one worker's,
// because otherwise it may deadlock, as docs/statements.md says.
func (c *contender) settleable(ctx context.Context, own bool) ([]*queue.Job, error) {
	name := c.name
	if own && c.draw.IntN(2) == 0 {
		name = "" // jobs of all workers, settled by one statement for each
	}
	return c.queryJobs(ctx, runningSQL, 1+c.draw.IntN(20), name)
}

// settling returns a call that settles running jobs, each with a random one of these actions.
func settling(verbs ...queue.OutcomeAction) call {
	return func(c *contender, ctx context.Context) (int, error) {
		own := c.draw.IntN(2) == 0
		jobs, err := c.settleable(ctx, own)
		if err != nil {
			return 0, err
		}
		outcomes := make([]queue.Outcome, len(jobs))
		for i, job := range jobs {
			outcomes[i] = queue.Outcome{Job: job, Action: verbs[c.draw.IntN(len(verbs))], Err: errContended, Delay: time.Duration(c.draw.IntN(10)) * time.Millisecond}
		}
		var lost []*queue.Job
		err = c.inTxOrOwn(ctx, own, func(db queue.DB) (err error) {
			lost, err = c.q.Settle(ctx, db, outcomes...)
			if locked, ok := errors.AsType[*driver.LockedError](err); ok { // by a transaction of another contender
				lost, err = append(lost, locked.Jobs...), nil
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		var ended []*queue.Job
		for _, o := range outcomes {
			if (o.Action == queue.Done || o.Action == queue.Dead) && !slices.Contains(lost, o.Job) {
				ended = append(ended, o.Job)
			}
		}
		return len(jobs) - len(lost), c.ended(ended...)
	}
}

var errContended = errors.New("settled at random")

func (c *contender) extend(ctx context.Context) (int, error) {
	jobs, err := c.queryJobs(ctx, runningSQL, 1+c.draw.IntN(20), c.name)
	if err != nil {
		return 0, err
	}
	lost, _, err := c.q.Extend(ctx, time.Duration(1+c.draw.IntN(300))*time.Millisecond, jobs...)
	return len(jobs) - len(lost), err
}

func (c *contender) reclaim(ctx context.Context) (int, error) {
	jobs, err := c.q.Reclaim(ctx, 1+c.draw.IntN(40))
	return len(jobs), err
}

func (c *contender) redrive(ctx context.Context) (int, error) {
	jobs, err := c.queryJobs(ctx, deadSQL, 1)
	if err != nil || len(jobs) == 0 {
		return 0, err
	}
	return c.q.Redrive(ctx, nil, queue.Selection{IDs: []int64{jobs[0].ID}})
}

func (c *contender) redriveAll(ctx context.Context) (int, error) {
	return c.q.Redrive(ctx, nil, queue.Selection{Queue: queue.DefaultQueue})
}

func (c *contender) prune(ctx context.Context) (int, error) {
	removed, _, err := c.q.Prune(ctx)
	return removed, err
}

func (c *contender) enqueuePlain(ctx context.Context) (int, error) { return c.enqueue(ctx, "") }

// enqueueKeyed enqueues jobs with few different keys, in random order.
func (c *contender) enqueueKeyed(ctx context.Context) (int, error) { return c.enqueue(ctx, "k") }

func (c *contender) enqueue(ctx context.Context, key string) (int, error) {
	jobs := make([]*queue.Job, 1+c.draw.IntN(10))
	numbers := make([]int, len(jobs))
	for i := range jobs {
		numbers[i] = c.next()
		jobs[i] = &queue.Job{Kind: string(peer.Plain), Payload: fmt.Appendf(nil, `{"number": %d}`, numbers[i]), MaxAttempts: 1_000_000}
		if key != "" {
			jobs[i].Key = key + strconv.Itoa(c.draw.IntN(60))
		}
	}
	err := c.inTxOrOwn(ctx, c.draw.IntN(2) == 0, func(db queue.DB) error { return c.q.Enqueue(ctx, db, jobs...) })
	if err != nil {
		return 0, err
	}
	var written []int
	for i, job := range jobs {
		if !job.Duplicate {
			written = append(written, numbers[i])
		}
	}
	if len(written) > 0 {
		exitOnError(c.ledger.Acked(written...))
	}
	return len(written), nil
}
