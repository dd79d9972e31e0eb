package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// SQLite has no notifications. A call on the backend's own handle that makes jobs pending wakes the
// sleepers of its process after its commit. To notice all other commits, a process with sleepers
// reads the last id that was drawn: one row, in 5 µs. So a statement that makes a job pending again
// draws an id, too. When a caller's transaction of this process has enqueued, it may commit at any
// moment, so the process then reads more often for a while.

const (
	// pollEvery is how often Listen looks into the file while a worker sleeps.
	pollEvery = 40 * time.Millisecond
	// soonPoll is how soon Listen looks after an Enqueue in a caller's transaction of this process.
	// Each further pause is a fifth longer.
	soonPoll = time.Millisecond
	slowing  = 5 // the part by which a pause grows: a fifth
)

// sleeper is a worker that listens. The file's mutex guards its fields.
type sleeper struct {
	prefix, worker      string
	queues              []string
	asleep              bool
	seen                int64         // the last id that was drawn when it fell asleep
	pause               time.Duration // until the next look
	woken, pauseChanged chan struct{} // hold one signal each: to wake up, and to read pause again
}

// Listen implements [driver.Waiter]. It wakes the worker at once after an Enqueue on the backend's
// own handle in this process. After any other commit that enqueues, in this process or another, it
// wakes the worker after 20 ms on average, and after little more than 40 ms at most. Listen holds
// no connection.
func (b *Backend) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	s := b.file.register(b.options.Prefix, worker, queues)
	defer b.file.remove(s)
	c := &canceller{prefix: b.options.Prefix, worker: worker, signal: make(chan struct{}, 1)}
	b.file.addCanceller(c)
	defer b.file.removeCanceller(c)
	var seen changes
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	timer := time.NewTimer(b.file.nextLook(s))
	defer timer.Stop()
	for {
		select { // a case that continues does not put off the look for jobs
		case <-ctx.Done():
			return nil
		case <-s.woken:
			for _, name := range queues {
				b.rules.Hurry(name)
			}
			tell(driver.Signal{Jobs: true})
		case <-c.signal:
			tell(driver.Signal{Cancels: true, IDs: b.file.takeHints(c)})
			continue
		case <-look.C:
			now, err := b.readChanges(ctx)
			if err != nil {
				continue // the next look finds the same
			}
			if news := now.since(seen); news.Cancels || news.Pauses {
				tell(news)
			}
			seen = now
			continue
		case <-s.pauseChanged:
		case <-timer.C:
			b.checkForJobs(ctx, s)
		}
		timer.Reset(b.file.nextLook(s))
	}
}

// CheckListen implements [driver.Waiter]: Listen has no connection of its own that could break.
func (b *Backend) CheckListen(string) error { return nil }

// Sleep implements [driver.Waiter] with sql/sleep.sql.
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	sleepers := b.file.fallAsleep(b.options.Prefix, worker, queues)
	at, question := now(), b.ticks.Ask()
	var seen int64
	var due, tick sql.NullInt64
	err = b.read(ctx, "sleep", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen, &due, &tick) }, b.sql["sleep"], stringList(queues), at)
	})
	if err != nil {
		return -1, err
	}
	b.file.recordSeen(sleepers, seen)
	b.ticks.NoteAsleep(question, untilTick(tick, at))
	next = -1
	if due.Valid {
		next = sqlkit.Duration(due.Int64 - at)
	}
	return b.rules.Bound(queues, b.turns.bound(queues, next)), nil
}

// checkForJobs reads the last id that was drawn, and wakes the sleepers that fell asleep before.
// One read serves every worker of the backend.
func (b *Backend) checkForJobs(ctx context.Context, s *sleeper) {
	last, now := b.polled.Load(), time.Now().UnixNano()
	if now-last < int64(b.file.slowDown(s)/2) || !b.polled.CompareAndSwap(last, now) {
		return
	}
	seen := int64(-1)
	// If this read fails, the next one will find the same jobs.
	_ = b.read(context.WithoutCancel(ctx), "listen", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen) }, b.sql["last_id"])
	})
	b.file.wakeBehind(b.options.Prefix, seen)
}

// wakeFor wakes the sleepers of the queues into which jobs were enqueued through db. If db has yet
// to commit, it makes them look soon instead.
func (b *Backend) wakeFor(db queue.DB, jobs []*queue.Job) {
	var names []string
	first, last := int64(math.MaxInt64), int64(0)
	for _, j := range jobs {
		if j.Duplicate {
			continue
		}
		first, last = min(first, j.ID), max(last, j.ID)
		if name := cmp.Or(j.Queue, queue.DefaultQueue); len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	b.wakeQueues(b.isOwn(db), names, first, last)
}

// wakeQueues wakes the sleepers of the queues if the change is committed. Otherwise it makes them
// look soon. The change drew the ids from first to last.
func (b *Backend) wakeQueues(committed bool, names []string, first, last int64) {
	if !committed {
		b.file.pollSoon(b.options.Prefix, names)
		return
	}
	b.file.wake(b.options.Prefix, names)
	b.file.markSeen(b.options.Prefix, first, last)
}

// requeued holds the queues in which jobs have become pending again: retried, released, reclaimed
// or redriven.
type requeued struct {
	queues   []string
	bumpedID int64 // the id that was drawn to tell other processes
}

func (r *requeued) add(name string) {
	if !slices.Contains(r.queues, name) {
		r.queues = append(r.queues, name)
	}
}

// bumpID draws an id if jobs have become pending again. Other processes notice it after the commit.
func (b *Backend) bumpID(ctx context.Context, db queue.DB, again *requeued) error {
	if len(again.queues) == 0 {
		return nil
	}
	return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&again.bumpedID) }, b.sql["bump_id"])
}

// wakeRequeued wakes the sleepers of this process in these queues, or makes them look soon.
func (b *Backend) wakeRequeued(committed bool, again requeued) {
	if len(again.queues) > 0 {
		b.wakeQueues(committed, again.queues, again.bumpedID, again.bumpedID)
	}
}

// register adds a sleeper. Its first look wakes it, because it may have missed earlier commits.
func (f *file) register(prefix, worker string, queues []string) *sleeper {
	s := &sleeper{
		prefix: prefix, worker: worker, queues: slices.Clone(queues), asleep: true, seen: -1, pause: soonPoll,
		woken: make(chan struct{}, 1), pauseChanged: make(chan struct{}, 1),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sleepers[s] = struct{}{}
	return s
}

func (f *file) remove(s *sleeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sleepers, s)
}

// nextLook returns the pause until s looks into the file. While s is awake, it never looks.
func (f *file) nextLook(s *sleeper) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.asleep {
		return math.MaxInt64
	}
	return s.pause
}

// slowDown returns the pause before this look, and makes the next one longer.
func (f *file) slowDown(s *sleeper) (pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pause = s.pause
	s.pause = min(s.pause+s.pause/slowing, pollEvery)
	return pause
}

// fallAsleep puts the worker to sleep. It returns a sleeper for each of the worker's calls of
// Listen.
func (f *file) fallAsleep(prefix, worker string, queues []string) (sleepers []*sleeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix != prefix || s.worker != worker || !slices.Equal(s.queues, queues) {
			continue
		}
		s.asleep, s.seen, s.pause = true, math.MaxInt64, pollEvery
		signal(s.pauseChanged)
		sleepers = append(sleepers, s)
	}
	return sleepers
}

// recordSeen records the last id that was drawn when the sleepers fell asleep.
func (f *file) recordSeen(sleepers []*sleeper, seen int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range sleepers {
		s.seen = min(s.seen, seen)
	}
}

// wake wakes the sleepers of the queues.
func (f *file) wake(prefix string, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.servesOne(names) {
			s.wake()
		}
	}
}

// wakeBehind wakes the sleepers that fell asleep before the id seen was drawn.
func (f *file) wakeBehind(prefix string, seen int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.seen < seen {
			s.wake()
		}
	}
}

// markSeen moves the sleepers' last-seen id past the ids that this process has just drawn, so that
// its own enqueues do not wake workers of other queues.
func (f *file) markSeen(prefix string, first, last int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.seen == first-1 {
			s.seen = last
		}
	}
}

// pollSoon makes the sleepers of the queues look soon.
func (f *file) pollSoon(prefix string, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.asleep && s.servesOne(names) {
			s.pause = soonPoll
			signal(s.pauseChanged)
		}
	}
}

func (s *sleeper) servesOne(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(s.queues, name) })
}

// wake wakes s if it sleeps. The caller holds the file's mutex.
func (s *sleeper) wake() {
	if s.asleep {
		s.asleep = false
		signal(s.woken)
	}
}

// signal makes a receive from c succeed, now or the next time.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
