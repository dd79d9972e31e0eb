package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// maxOnDead is how many calls of OnDead for reclaimed jobs run at once, and maxDeaths how many
	// jobs wait for one.
	maxOnDead = 10
	maxDeaths = 10_000
)

// announceReclaimed makes announceLoop call OnDead for each of the reclaimed jobs that is dead. It
// does not wait.
func (u *upkeeping) announceReclaimed(reclaimed []queue.Event) {
	if u.OnDead == nil {
		return
	}
	missed := 0
	for _, e := range reclaimed {
		if e.Type != queue.EventDead {
			continue
		}
		u.noteAnnouncing(+1)
		select {
		case u.deaths <- e:
		default:
			u.noteAnnouncing(-1)
			missed++
		}
	}
	u.logMissed(missed)
}

// noteAnnouncing changes the number of reclaimed jobs whose OnDead is to be called, or runs.
func (u *upkeeping) noteAnnouncing(change int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.announcing += change
	u.noteIdle()
}

// stillAnnouncing returns how many calls of OnDead for reclaimed jobs have not returned.
func (u *upkeeping) stillAnnouncing() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.announcing
}

// whenIdle returns a channel that is closed as soon as no OnDead for a reclaimed job runs or is to
// be called, and no call that tells of dead jobs.
func (u *upkeeping) whenIdle() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	idle := make(chan struct{})
	u.idle = idle
	u.noteIdle()
	return idle
}

// noteIdle closes the channel of whenIdle, once. The caller holds u.mu.
func (u *upkeeping) noteIdle() {
	if u.idle != nil && u.announcing == 0 {
		close(u.idle)
		u.idle = nil
	}
}

// announceLoop calls OnDead for reclaimed jobs, until u.deaths is closed and the calls have
// returned. No call begins once u.onDead has ended. Once patience has ended, announceLoop does not
// wait for calls that still run.
func (u *upkeeping) announceLoop(patience context.Context) {
	running := make(chan struct{}, maxOnDead)
	missed := 0
	for e := range u.deaths {
		if !acquire(u.onDead, running) {
			missed++
			u.noteAnnouncing(-1)
			continue
		}
		go func() {
			defer func() { u.noteAnnouncing(-1); <-running }()
			u.announceCrash(e)
		}()
	}
	u.logMissed(missed)
	for range maxOnDead { // until no call runs
		acquire(patience, running)
	}
}

// announceCrash calls OnDead for a reclaimed job. A call that ignores the end of its context is
// logged once: ten of them keep all further calls waiting.
func (u *upkeeping) announceCrash(dead queue.Event) {
	s := currentSlot()
	ctx, cancel := context.WithTimeout(u.onDead, onDeadTimeout)
	defer cancel()
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-returned:
		case <-time.After(stuckAfter):
			u.Logger.Error("errand: OnDead ignores that its context has ended, one of ten calls is busy until it returns",
				append(jobAttrs(dead.Job), "stack", s.stackIn(dumpStacks()))...)
		}
	})()
	u.callOnDead(ctx, dead)
}

// acquire waits for a place among the running calls. It reports false if ctx has ended.
func acquire(ctx context.Context, running chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case running <- struct{}{}:
		return true
	}
}

// callOnDead calls OnDead, and logs its panic.
func (s *shared) callOnDead(ctx context.Context, dead queue.Event) {
	defer func() {
		if v := recover(); v != nil {
			s.failures.write(slog.LevelError, "errand: OnDead panicked", dead.Job, queue.RecoveredPanic(v))
		}
	}()
	s.OnDead(ctx, dead.Job, dead.Err)
}

// logMissed logs for how many reclaimed jobs OnDead has not been called.
func (u *upkeeping) logMissed(jobs int) {
	if jobs > 0 {
		u.Logger.Error("errand: OnDead not called for reclaimed jobs that are dead, because calls take long or the worker stops",
			"omitted", jobs)
	}
}
