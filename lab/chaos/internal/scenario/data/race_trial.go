package data

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

// trial is one race between a settle and a reclaim.
type trial struct {
	*track
	ending    ending
	subject   *queue.Job // its lease has expired
	bystander *queue.Job // its lease has not expired; it is settled in the same call

	mu        sync.Mutex
	settled   bool // the settle won the subject
	reclaimed bool
	other     bool // the bystander was not settled
	rival     bool // the subject was claimed again
}

// trialTimeout is far more than a trial takes, unless a statement waits that should not.
const trialTimeout = 3 * time.Second

// try runs one trial. It returns the winner, and an error if something is wrong.
func (t *track) try(ctx context.Context, number int, o order, e ending) (side, error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	one := &trial{track: t, ending: e}
	if err := one.prepare(ctx, fmt.Sprint("race-", number)); err != nil {
		return "", err
	}
	if err := o.run(ctx, one); err != nil {
		return "", err
	}
	winner := reclaiming
	if one.settled {
		winner = settling
	}
	switch {
	case one.settled == one.reclaimed:
		return "", fmt.Errorf("settled %v and reclaimed %v", one.settled, one.reclaimed)
	case o.winner != either && o.winner != winner:
		return winner, fmt.Errorf("%s won", winner)
	case one.other:
		return winner, errors.New("the job beside it was not settled")
	}
	return winner, one.check(ctx, winner)
}

// prepare claims the two jobs, one of them with a lease that expires at once.
func (t *trial) prepare(ctx context.Context, name string) error {
	q := t.runners[settler][nowhere].kept
	claim := func(lease time.Duration) (*queue.Job, error) {
		if err := q.Enqueue(ctx, nil, &queue.Job{Kind: "race", Queue: name}); err != nil {
			return nil, err
		}
		jobs, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{name}, Limit: 1, Lease: lease, Worker: name})
		if err == nil && len(jobs) != 1 {
			err = fmt.Errorf("%d jobs claimed", len(jobs))
		}
		if err != nil {
			return nil, err
		}
		return jobs[0], nil
	}
	var err error
	if t.bystander, err = claim(time.Hour); err != nil {
		return err
	}
	if t.subject, err = claim(time.Millisecond); err != nil {
		return err
	}
	_, err = t.reader.Exec(ctx, `WITH gone AS (DELETE FROM chaos.subject) INSERT INTO chaos.subject VALUES ($1)`, t.subject.ID)
	if err != nil {
		return err
	}
	return t.awaitTrue(ctx, nil, `SELECT locked_until < clock_timestamp() FROM errand.jobs WHERE id = $1`, t.subject.ID)
}

// settle returns the holder's settle, which stops at a place.
func (t *trial) settle(ctx context.Context, at place) func() error {
	return func() error {
		r := t.runners[settler][at]
		return t.settleOn(ctx, r, nil)
	}
}

func (t *trial) settleOn(ctx context.Context, r runner, db queue.DB) error {
	q := r.kept
	if !t.ending.kept {
		q = r.not
	}
	var outcomes []queue.Outcome
	for _, job := range []*queue.Job{t.subject, t.bystander} {
		outcomes = append(outcomes, queue.Outcome{Job: job, Action: t.ending.verb, Delay: time.Hour, Err: errors.New("the handler's")})
	}
	lost, err := q.Settle(ctx, db, outcomes...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled = true
	for _, job := range lost {
		if job == t.subject {
			t.settled = false
		} else {
			t.other = true
		}
	}
	return err
}

// settleInTx settles in a transaction, calls meanwhile, and ends the transaction.
func (t *trial) settleInTx(ctx context.Context, commit bool, meanwhile func() error) error {
	r := t.runners[settler][nowhere]
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := t.settleOn(ctx, r, tx); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if commit {
		return tx.Commit()
	}
	t.settled = false
	return tx.Rollback()
}

// reclaim returns another worker's reclaim, which stops at a place.
func (t *trial) reclaim(ctx context.Context, at place) func() error {
	return func() error {
		taken, err := t.runners[reclaimer][at].kept.Reclaim(ctx, 100)
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, job := range taken {
			if job.ID != t.subject.ID {
				return fmt.Errorf("job %d was reclaimed as well", job.ID)
			}
			t.reclaimed = true
		}
		return err
	}
}

// claim returns a rival's claim of the reclaimed job.
func (t *trial) claim(ctx context.Context) func() error {
	return func() error {
		req := queue.ClaimRequest{Queues: []string{t.subject.Queue}, Limit: 1, Lease: time.Hour, Worker: "rival"}
		jobs, err := t.runners[reclaimer][nowhere].kept.Claim(ctx, req)
		t.rival = true
		if err == nil && len(jobs) != 1 {
			err = fmt.Errorf("the rival claimed %d jobs", len(jobs))
		}
		return err
	}
}

// begin runs a step in a goroutine.
func (t *trial) begin(step func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- step() }()
	return ended
}

// stopped runs a step until it stops at a place, calls meanwhile, and lets the step end.
func (t *trial) stopped(ctx context.Context, at place, step, meanwhile func() error) error {
	// Without the trial's timeout, because the next trial needs the gate, too.
	if _, err := t.gate.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_lock(hashtext($1))`, string(at)); err != nil {
		return err
	}
	ended := t.begin(step)
	err := t.awaitTrue(ctx, ended, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = hashtext($1)::oid)`, string(at))
	if err == nil {
		err = meanwhile()
	}
	_, unlock := t.gate.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock(hashtext($1))`, string(at))
	return errors.Join(err, unlock, <-ended)
}

// awaitBlocked waits until a side waits for a row that the other side has locked.
func (t *trial) awaitBlocked(ctx context.Context, name string, ended <-chan error) error {
	return t.awaitTrue(ctx, ended, `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE application_name = $1 AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple'))`, name)
}

// awaitTrue asks a question until the answer is true. It fails if the other step ends first.
func (t *trial) awaitTrue(ctx context.Context, ended <-chan error, question string, args ...any) error {
	for {
		var yes bool
		if err := t.reader.QueryRow(ctx, question, args...).Scan(&yes); err != nil || yes {
			return err
		}
		if len(ended) > 0 {
			return errors.New("it did not stop where it should have")
		}
	}
}

// row returns the subject's row, with everything that an update changes. It returns "" if there is
// no row.
func (t *trial) row(ctx context.Context) (status, lastError, all string, err error) {
	err = t.reader.QueryRow(ctx, `SELECT status::text, coalesce(last_error, ''), concat_ws(' | ', xmin, ctid, j) FROM errand.jobs AS j WHERE id = $1`, t.subject.ID).
		Scan(&status, &lastError, &all)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", "", nil
	}
	return status, lastError, all, err
}

// check checks that the row is as the winner left it, and that both statements change nothing when
// they are repeated.
func (t *trial) check(ctx context.Context, winner side) error {
	status, lastError, before, err := t.row(ctx)
	if err != nil {
		return err
	}
	want := string(queue.StatusPending)
	switch {
	case t.rival:
		want = string(queue.StatusRunning)
	case winner == reclaiming:
	case !t.ending.kept:
		want = ""
	case t.ending.verb == queue.Done:
		want = string(queue.StatusCompleted)
	case t.ending.verb == queue.Dead:
		want = string(queue.StatusDead)
	}
	if status != want || strings.Contains(lastError, "lease of worker") != (winner == reclaiming) {
		return fmt.Errorf("%s won, and the row is %q with the error %q", winner, status, lastError)
	}
	if err := inTurn(t.settle(ctx, nowhere), t.reclaim(ctx, nowhere)); err != nil {
		return err
	}
	if t.settled {
		return errors.New("it could be settled again")
	}
	if _, _, after, err := t.row(ctx); err != nil || after != before {
		return errors.Join(err, fmt.Errorf("the row was changed again: %s", scenario.Difference(before, after)))
	}
	return nil
}
