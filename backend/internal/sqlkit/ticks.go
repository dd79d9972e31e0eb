package sqlkit

import (
	"sync"
	"time"
)

const (
	// fireBatch, fireJobs and fireBytes bound how many schedules are fired in one transaction, and
	// how many jobs with how many bytes it enqueues.
	fireBatch = 500
	fireJobs  = 1000
	fireBytes = 8 << 20
	// fireTime is how long a transaction computes jobs before it enqueues those that it has. The
	// server waits for a second for its next statement.
	fireTime = 200 * time.Millisecond
	// knownAsleep is how long the next tick is known after a worker has fallen asleep.
	knownAsleep = 35 * time.Second
	// knownBusy is how long it is known after this process has asked for it. Workers call
	// FireSchedules each 5 s.
	knownBusy = 4 * time.Second
)

// Ticks is what this process knows about the next tick. Its zero value knows nothing. It is safe
// for concurrent use.
type Ticks struct {
	mu      sync.Mutex
	known   time.Time            // until when next holds
	next    time.Time            // zero if there is none
	changes int                  // how often Expire was called
	left    map[string]time.Time // schedules that could not be fired, and until when to leave them alone
	singles int                  // how many schedules to fire one by one, because a batch has failed
	halved  int                  // how often the bounds of a batch are halved, because batches have failed
	busy    time.Duration        // the last pause before ticks that others have locked; 0 if there were none
	barred  time.Time            // until then this process fires nothing, because it lacks a right
	denial  error                // which one, until it has fired something
	setBack bool                 // the server's clock was set back, and no schedule was rewound since
}

// NoteJump notes a jump of the server's clock, below 0 for one back: the next Fire rewinds.
func (t *Ticks) NoteJump(by time.Duration) {
	if by >= 0 {
		return
	}
	t.Expire()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setBack = true
}

// takeSetBack reports whether to rewind schedules now.
func (t *Ticks) takeSetBack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.setBack
	t.setBack = false
	return is
}

// Ask returns a number for NoteAsleep and NoteAsked. Call it before asking for the next tick: if
// schedules change meanwhile, the answer may be from before the change, and is not recorded.
func (t *Ticks) Ask() (question int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

// NoteAsleep records when the next tick comes, below 0 for none, as a worker has learned that falls
// asleep. A change wakes it, and it asks again at least every 30 s.
func (t *Ticks) NoteAsleep(question int, next time.Duration) { t.note(question, next, knownAsleep) }

// NoteAsked records when the next tick comes, below 0 for none, as this process has asked.
func (t *Ticks) NoteAsked(question int, next time.Duration) { t.note(question, next, knownBusy) }

// note records when the next tick comes, below 0 for none, and for how long that is known. It does
// nothing if Expire was called since the question.
func (t *Ticks) note(question int, next, known time.Duration) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if question != t.changes {
		return
	}
	t.known, t.next = now.Add(known), time.Time{}
	if next >= 0 {
		t.next = now.Add(next)
	}
}

// firstBusy and longestBusy are the pauses before ticks that others have locked.
const (
	firstBusy   = 10 * time.Millisecond
	longestBusy = time.Second
)

// noteBusy returns when to ask again, because others have locked what is due, or may have fired it
// meanwhile: at the tick that follows, and after a pause that doubles with each call.
func (t *Ticks) noteBusy(following time.Duration) (next time.Duration) {
	t.mu.Lock()
	t.busy = min(max(2*t.busy, firstBusy), longestBusy)
	next = t.busy
	question := t.changes
	t.mu.Unlock()
	if following >= 0 {
		next = min(next, following)
	}
	t.note(question, next, knownBusy)
	return next
}

// noteFree notes that ticks are not locked.
func (t *Ticks) noteFree() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = 0
}

// Expire forgets the next tick, and makes the answers to earlier questions void.
func (t *Ticks) Expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	t.known = time.Time{}
}

// UntilNext returns how long until the next tick, or less than 0 for none. ok is false if it is not
// known, or if a tick has come.
func (t *Ticks) UntilNext() (next time.Duration, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !now.Before(t.known):
		return 0, false
	case t.next.IsZero():
		return -1, true
	}
	return t.next.Sub(now), t.next.After(now)
}

// Leave leaves a schedule alone for d.
func (t *Ticks) Leave(name string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == nil {
		t.left = make(map[string]time.Time)
	}
	t.left[name] = time.Now().Add(d)
}

// Left returns the schedules to leave alone now.
func (t *Ticks) Left() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, until := range t.left {
		if time.Now().After(until) {
			delete(t.left, name)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// Deny leaves all schedules to other processes for d, because of err. Fire returns that until it
// calls allow.
func (t *Ticks) Deny(d time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.barred, t.denial = time.Now().Add(d), err
}

// allow ends what Deny began.
func (t *Ticks) allow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.barred, t.denial = time.Time{}, nil
}

// denied reports whether this process fires nothing now, and returns the error with which it was
// last refused, nil since allow.
func (t *Ticks) denied() (now bool, denial error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.barred), t.denial
}

// Batch returns an empty batch with the bounds that the next transaction keeps.
func (t *Ticks) Batch(maxPayload int) *Batch {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &Batch{
		ticks: t, maxPayload: maxPayload, until: time.Now().Add(fireTime),
		Schedules: max(fireBatch>>t.halved, 1), Bytes: fireBytes >> t.halved, jobs: max(fireJobs>>t.halved, 1),
	}
	if t.singles > 0 {
		t.singles--
		b.Schedules = 1
	}
	return b
}

// FireSingly makes the next batches have one schedule, because a batch of that size has failed.
func (t *Ticks) FireSingly(size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.singles = size
}

// NoteBatch halves the bounds of the next batch if a batch has failed, and else doubles them again.
func (t *Ticks) NoteBatch(failed bool) {
	const most = 9 // fireBatch and fireJobs are 1 then
	t.mu.Lock()
	defer t.mu.Unlock()
	if failed {
		t.halved = min(t.halved+1, most)
	} else {
		t.halved = max(t.halved-1, 0)
	}
}
