package postgres_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// life is that of jobs which have the text s wherever they can.
type life struct {
	*testing.T
	db    *sql.DB
	q     *postgres.Backend
	table string
	s     string
}

// name is s where that may be a name.
func (l life) name() string {
	if isName(l.s) {
		return l.s
	}
	return "test"
}

func (l life) job(key string) *queue.Job {
	return &queue.Job{Queue: l.name(), Kind: l.name(), Key: key, Payload: l.payload(), Headers: map[string]string{l.s: l.s, "b": l.s + l.s}}
}

func (l life) payload() json.RawMessage {
	return jsonOf(l.T, map[string]any{l.s: []string{l.s, l.s + l.s}})
}

func (l life) request(n int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: []string{"none", l.name()}, Kinds: []string{"none", l.name()}, Limit: n, Lease: time.Minute, Worker: l.name()}
}

func (l life) lead() {
	l.Helper()
	l.enqueue()
	l.look(5)
	l.settle()
	l.claimInTx()
	l.reclaim()
	l.redrive()
	if n := value[int](l, l.db, `SELECT count(*) FROM `+l.table); n != 5 {
		l.Errorf("%q: %d jobs at the end, want 5", l.s, n)
	}
	exec(l, l.db, `DELETE FROM `+l.table)
}

// enqueue writes 5 jobs, in each of the ways there are.
func (l life) enqueue() {
	l.Helper()
	keyed := l.job(l.s)
	enqueue(l, l.q, l.job(""))
	enqueue(l, l.q, keyed)
	enqueue(l, l.q, l.job(""), l.job(""))
	again, fresh := l.job(l.s), l.job("")
	enqueue(l, l.q, again, fresh)
	bySQL := value[int64](l, l.db, `SELECT `+strings.TrimSuffix(l.table, "jobs")+`enqueue($1::text, $2::text, $3::text::jsonb, job_key => $4::text, headers => $5::text::jsonb)`,
		l.name(), l.name(), string(l.payload()), l.s, `{}`)
	if !again.Duplicate || again.ID != keyed.ID || fresh.Duplicate || bySQL != keyed.ID {
		l.Errorf("%q: as a key again: Duplicate %v, ID %d, and %d by SQL; want true and %d", l.s, again.Duplicate, again.ID, bySQL, keyed.ID)
	}
}

// look counts and lists jobs, and registers a worker as asleep.
func (l life) look(want int) {
	l.Helper()
	if _, err := l.q.Sleep(l.Context(), l.name(), []string{l.name(), "none"}); err != nil {
		l.Errorf("%q: Sleep: %v", l.s, err)
	}
	counts, err := l.q.Counts(l.Context())
	if err != nil || len(counts) != 1 || counts[0] != (queue.StatusCount{Queue: l.name(), Status: queue.StatusPending, Jobs: int64(want), Exact: true}) {
		l.Errorf("%q: Counts: got %+v, error %v; want %d of that queue", l.s, counts, err, want)
	}
	backlogs, err := l.q.Backlogs(l.Context())
	if err != nil || len(backlogs) != 1 || backlogs[0].Queue != l.name() {
		l.Errorf("%q: Backlogs: got %+v, error %v; want that queue", l.s, backlogs, err)
	}
	for _, f := range []queue.Filter{{Queue: l.name()}, {Kind: l.name()}, {Queue: l.name(), Kind: l.name(), Status: queue.StatusPending}} {
		if records, _, err := l.q.Jobs(l.Context(), f); err != nil || len(records) != want {
			l.Errorf("%q: Jobs(%+v): got %d, error %v; want %d", l.s, f, len(records), err, want)
		}
	}
	records, _, err := l.q.Jobs(l.Context(), queue.Filter{Key: l.s})
	if err != nil || len(records) != 1 {
		l.Fatalf("%q: Jobs by key: got %d, error %v; want 1", l.s, len(records), err)
	}
	l.same(&records[0].Job)
}

// same checks that the job is as it was enqueued.
func (l life) same(j *queue.Job) {
	l.Helper()
	var got, want any
	if err := errors.Join(json.Unmarshal(j.Payload, &got), json.Unmarshal(l.payload(), &want)); err != nil {
		l.Errorf("%q: payload: %v", l.s, err)
	}
	if !reflect.DeepEqual(got, want) {
		l.Errorf("%q: payload: got %s, want %s", l.s, j.Payload, l.payload())
	}
	if like := l.job(""); j.Queue != like.Queue || j.Kind != like.Kind || !reflect.DeepEqual(j.Headers, like.Headers) {
		l.Errorf("%q: got %+v, want %+v", l.s, j, like)
	}
	if j.Key != "" && j.Key != l.s {
		l.Errorf("%q: key: got %q", l.s, j.Key)
	}
}

func (l life) claim(n int) []*queue.Job {
	l.Helper()
	held, err := l.q.Claim(l.Context(), l.request(n))
	if err != nil || len(held) != n {
		l.Fatalf("%q: Claim: got %d jobs, error %v; want %d", l.s, len(held), err, n)
	}
	for _, j := range held {
		l.same(j)
	}
	return held
}

// settle claims the 5 jobs, extends their leases, and settles one by each action, and another that
// is done.
func (l life) settle() {
	l.Helper()
	held := l.claim(5)
	if lost, _, err := l.q.Extend(l.Context(), time.Minute, held...); err != nil || len(lost) != 0 {
		l.Errorf("%q: Extend: lost %d, error %v", l.s, len(lost), err)
	}
	failed := errors.New(l.s)
	lost, err := l.q.Settle(l.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Retry, Err: failed},
		queue.Outcome{Job: held[2], Action: queue.Dead, Err: failed}, queue.Outcome{Job: held[3], Action: queue.Release})
	if err != nil || len(lost) != 0 {
		l.Errorf("%q: Settle: lost %d, error %v", l.s, len(lost), err)
	}
	if lost, err := l.q.Settle(l.Context(), nil, queue.Outcome{Job: held[4]}); err != nil || len(lost) != 0 {
		l.Errorf("%q: Settle of what is done: lost %d, error %v", l.s, len(lost), err)
	}
	for i, want := range []queue.Status{queue.StatusCompleted, queue.StatusPending, queue.StatusDead, queue.StatusPending, queue.StatusCompleted} {
		r, ok, err := l.q.Job(l.Context(), held[i].ID)
		if err != nil || !ok || r.Status != want {
			l.Errorf("%q: Job: got %v, %v, error %v; want %v", l.s, r.Status, ok, err, want)
		}
		if failed := i == 1 || i == 2; failed && r.LastError != l.s {
			l.Errorf("%q: as an error text: got %q", l.s, r.LastError)
		}
	}
}

// claimInTx claims a job within a transaction, which is rolled back.
func (l life) claimInTx() {
	l.Helper()
	tx, err := l.db.BeginTx(l.Context(), nil)
	if err != nil {
		l.Fatal(err)
	}
	defer tx.Rollback()
	j, err := l.q.ClaimTx(l.Context(), tx, l.request(1))
	if err != nil || j == nil {
		l.Fatalf("%q: ClaimTx: got %v, error %v; want a job", l.s, j, err)
	}
	l.same(j)
}

// reclaim claims a job and lets its lease run out.
func (l life) reclaim() {
	l.Helper()
	l.claim(2)
	exec(l, l.db, `UPDATE `+l.table+` SET locked_at = locked_at - interval '1 hour', locked_until = locked_until - interval '30 minutes' WHERE status = 'running'`)
	back, err := l.q.Reclaim(l.Context(), 10)
	if err != nil || len(back) != 2 {
		l.Fatalf("%q: Reclaim: got %d, error %v; want 2", l.s, len(back), err)
	}
	for _, j := range back {
		r, ok, err := l.q.Job(l.Context(), j.ID)
		if err != nil || !ok {
			l.Fatalf("%q: Job %d after Reclaim: found %t, error %v", l.s, j.ID, ok, err)
		}
		l.same(&r.Job)
		if want := "errand: the lease of worker " + l.name() + " expired"; j.LastError != want {
			l.Errorf("%q: Reclaim: got %q, want %q", l.s, j.LastError, want)
		}
	}
}

// redrive revives the dead job and prunes.
func (l life) redrive() {
	l.Helper()
	if n, err := l.q.Redrive(l.Context(), nil, queue.Selection{Queue: l.name(), Kind: l.name()}); err != nil || n != 1 {
		l.Errorf("%q: Redrive: got %d, error %v; want 1", l.s, n, err)
	}
	if n, _, err := l.q.Prune(l.Context()); err != nil || n != 0 {
		l.Errorf("%q: Prune: got %d, error %v; want 0", l.s, n, err)
	}
}
