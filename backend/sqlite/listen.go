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
)

// SQLite notifies nobody. A call on the backend's own handle that makes jobs pending wakes the
// sleepers of its process when it has committed. To see all other commits, a process with sleepers
// reads the last id that was drawn, one row, which takes 5 µs. So a statement that returns a job to
// its queue draws an id, too. After a transaction of this process has enqueued, it may commit any
// moment: the process then reads more often for a while.

const (
	// pollEvery is how often Listen looks into the file while a worker sleeps.
	pollEvery = 40 * time.Millisecond
	// hurry is how soon it looks after an Enqueue in a transaction of this process, and slower by
	// slowing each time.
	hurry   = time.Millisecond
	slowing = 5 // a fifth
)

// sleeper is a worker that listens. The file's mutex guards its fields.
type sleeper struct {
	prefix, worker string
	queues         []string
	asleep         bool
	seen           int64         // the last id that was drawn when it fell asleep
	pause          time.Duration // until the next look
	woken, stirred chan struct{} // hold one signal each: to wake up, and to look at pause
}

// Listen implements [queue.Waiter]. It wakes the worker at once after an Enqueue on the backend's
// own handle in this process. After any other commit that enqueues, of this process or another, it
// takes 20 ms on average and little more than 40 at most. Listen holds no connection.
func (b *Backend) Listen(ctx context.Context, worker string, queues []string, wake func()) error {
	s := b.file.register(b.options.Prefix, worker, queues)
	defer b.file.remove(s)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(b.file.nextLook(s))
		select {
		case <-ctx.Done():
			return nil
		case <-s.woken:
			wake()
		case <-s.stirred:
		case <-timer.C:
			b.checkForJobs(ctx, s)
		}
	}
}

// Sleep implements [queue.Waiter] with sql/sleep.sql.
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	nap := b.file.fallAsleep(b.options.Prefix, worker, queues)
	at := now()
	var seen int64
	var due sql.NullInt64
	err = b.read(ctx, "sleep", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen, &due) }, b.sql.sleep, stringList(queues), at)
	})
	if err != nil {
		return -1, err
	}
	b.file.recordSeen(nap, seen)
	if !due.Valid {
		return -1, nil
	}
	return sqlkit.Duration(due.Int64 - at), nil
}

// checkForJobs reads the last id that was drawn, and wakes the sleepers that fell asleep before.
// One read serves every worker of the backend.
func (b *Backend) checkForJobs(ctx context.Context, s *sleeper) {
	last, now := b.polled.Load(), time.Now().UnixNano()
	if now-last < int64(b.file.slowDown(s)/2) || !b.polled.CompareAndSwap(last, now) {
		return
	}
	seen := int64(-1)
	// If this fails, the next read will see it.
	_ = b.read(context.WithoutCancel(ctx), "listen", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen) }, b.sql.seen)
	})
	b.file.wakeBehind(b.options.Prefix, seen)
}

// wakeFor wakes the sleepers of the queues of jobs that were enqueued through db, or makes them
// look soon where db has yet to commit.
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

// wakeQueues wakes the sleepers of the queues where the change has committed, and else makes them
// look soon. The change drew the ids from first to last.
func (b *Backend) wakeQueues(committed bool, names []string, first, last int64) {
	if !committed {
		b.file.hurry(b.options.Prefix, names)
		return
	}
	b.file.wake(b.options.Prefix, names)
	b.file.markSeen(b.options.Prefix, first, last)
}

// returned is the queues in which jobs have become pending again: retried, released, reclaimed or
// redriven.
type returned struct {
	queues []string
	roused int64 // the id that was drawn to tell other processes
}

func (r *returned) add(name string) {
	if !slices.Contains(r.queues, name) {
		r.queues = append(r.queues, name)
	}
}

// rouse draws an id if jobs have returned. Its commit tells other processes.
func (b *Backend) rouse(ctx context.Context, db queue.DB, back *returned) error {
	if len(back.queues) == 0 {
		return nil
	}
	return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&back.roused) }, b.sql.rouse)
}

// wakeReturned wakes this process's sleepers, or makes them look soon.
func (b *Backend) wakeReturned(committed bool, back returned) {
	if len(back.queues) > 0 {
		b.wakeQueues(committed, back.queues, back.roused, back.roused)
	}
}

// register adds a sleeper. Its first look wakes it, because it has missed earlier commits.
func (f *file) register(prefix, worker string, queues []string) *sleeper {
	s := &sleeper{
		prefix: prefix, worker: worker, queues: slices.Clone(queues), asleep: true, seen: -1, pause: hurry,
		woken: make(chan struct{}, 1), stirred: make(chan struct{}, 1),
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

// nextLook returns how long until s looks into the file: for ever while it is awake.
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
func (f *file) fallAsleep(prefix, worker string, queues []string) (nap []*sleeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix != prefix || s.worker != worker || !slices.Equal(s.queues, queues) {
			continue
		}
		s.asleep, s.seen, s.pause = true, math.MaxInt64, pollEvery
		signal(s.stirred)
		nap = append(nap, s)
	}
	return nap
}

// recordSeen records the last id that was drawn when the sleepers fell asleep.
func (f *file) recordSeen(nap []*sleeper, seen int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range nap {
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

// hurry makes the sleepers of the queues look soon.
func (f *file) hurry(prefix string, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.asleep && s.servesOne(names) {
			s.pause = hurry
			signal(s.stirred)
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
