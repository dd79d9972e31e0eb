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

// SQLite notifies nobody. A call that enqueues, retries, releases, takes back or redrives jobs on the backend's own handle wakes the sleepers
// of its process when it is committed. All other commits are seen by looking, while a worker sleeps, at the last id that was drawn, which
// is a row of a table of few: 5 µs, on any connection. So what returns a job to its queue draws an id, too. Where a transaction of this process is known to have enqueued and may commit any moment, the looks come faster for a
// while.

const (
	// pollEvery is how often Listen looks into the file while a worker sleeps.
	pollEvery = 40 * time.Millisecond
	// hurry is how soon it looks after an Enqueue in a transaction of this process, and slower by slowing each time.
	hurry   = time.Millisecond
	slowing = 5 // a fifth
)

// sleeper is a worker that listens. Its fields are under the file's mutex.
type sleeper struct {
	prefix, worker string
	queues         []string
	asleep         bool
	seen           int64         // the last id that was drawn when it fell asleep
	pause          time.Duration // until the next look
	woken, stirred chan struct{} // hold one signal each: to wake up, and to look at pause
}

// Listen implements [queue.Waiter]. It wakes the worker at once after an Enqueue on the backend's own handle in this process, and after
// any other commit that enqueues, of this process or another, in 20 ms on average and little more than 40 at most. It holds no connection.
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
			b.look(ctx, s)
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
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen, &due) }, b.sql.sleep, stringList(queues), at)
	})
	if err != nil {
		return -1, err
	}
	b.file.saw(nap, seen)
	if !due.Valid {
		return -1, nil
	}
	return sqlkit.Duration(due.Int64 - at), nil
}

// look wakes whom what was committed concerns. One look serves every worker of the backend.
func (b *Backend) look(ctx context.Context, s *sleeper) {
	last, now := b.polled.Load(), time.Now().UnixNano()
	if now-last < int64(b.file.slower(s)/2) || !b.polled.CompareAndSwap(last, now) {
		return
	}
	seen := int64(-1)
	// If this fails, the next look will see.
	_ = b.read(context.WithoutCancel(ctx), "listen", func(db queue.DB) error {
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen) }, b.sql.seen)
	})
	b.file.wakeBehind(b.options.Prefix, seen)
}

// tell wakes, or prepares, the sleepers of the jobs' queues.
func (b *Backend) tell(db queue.DB, jobs []*queue.Job) {
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
	b.tellQueues(b.isOwn(db), names, first, last)
}

// tellQueues wakes the sleepers of the queues, where what concerns them is committed, or prepares them for it. First to last are
// the ids that were drawn for it.
func (b *Backend) tellQueues(committed bool, names []string, first, last int64) {
	if !committed {
		b.file.expect(b.options.Prefix, names)
		return
	}
	b.file.wake(b.options.Prefix, names)
	b.file.know(b.options.Prefix, first, last)
}

// returned says where jobs have become pending again: retried, released, taken back or redriven.
type returned struct {
	queues []string
	roused int64 // the id that was drawn to say so to other processes
}

func (r *returned) add(name string) {
	if !slices.Contains(r.queues, name) {
		r.queues = append(r.queues, name)
	}
}

// rouse tells other processes, with the commit of the transaction, that jobs have returned, if some have.
func (b *Backend) rouse(ctx context.Context, db queue.DB, back *returned) error {
	if len(back.queues) == 0 {
		return nil
	}
	return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&back.roused) }, b.sql.rouse)
}

// tellReturned tells this process's sleepers.
func (b *Backend) tellReturned(committed bool, back returned) {
	if len(back.queues) > 0 {
		b.tellQueues(committed, back.queues, back.roused, back.roused)
	}
}

// register adds a sleeper, which is woken by the first look: what was before went unheard.
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

// nextLook is how long until s looks into the file: for ever while it is awake.
func (f *file) nextLook(s *sleeper) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.asleep {
		return math.MaxInt64
	}
	return s.pause
}

// slower is how long it was until this look; the next is later.
func (f *file) slower(s *sleeper) (pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pause = s.pause
	s.pause = min(s.pause+s.pause/slowing, pollEvery)
	return pause
}

// fallAsleep puts the worker to sleep, which listens as often as the list is long.
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

// saw notes what was there to see when they fell asleep.
func (f *file) saw(nap []*sleeper, seen int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range nap {
		s.seen = min(s.seen, seen)
	}
}

// wake wakes who sleeps on one of the queues.
func (f *file) wake(prefix string, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.servesOne(names) {
			s.wake()
		}
	}
}

// wakeBehind wakes who fell asleep before that id was drawn.
func (f *file) wakeBehind(prefix string, seen int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.seen < seen {
			s.wake()
		}
	}
}

// know keeps those from being woken whom ids do not concern that this process has drawn.
func (f *file) know(prefix string, first, last int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sleepers {
		if s.prefix == prefix && s.seen == first-1 {
			s.seen = last
		}
	}
}

// expect makes those look soon who sleep on one of the queues.
func (f *file) expect(prefix string, names []string) {
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
