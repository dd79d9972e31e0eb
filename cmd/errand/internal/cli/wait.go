package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// cancelWait is how long a command that has run out of time, or was interrupted, waits for the
// server to end its statement.
const cancelWait = time.Second

// Bounded makes an action that ends within --timeout.
func (a *App) Bounded(f action) action {
	return func(ctx context.Context, d *dburl.Database, args []string) error {
		return a.Step(ctx, d, func(ctx context.Context) error { return f(ctx, d, args) })
	}
}

// Step runs f, a step of a command, and ends its context after --timeout. The error then names the
// lock for which f has waited.
func (a *App) Step(ctx context.Context, d *dburl.Database, f func(ctx context.Context) error) error {
	return a.StepFor(ctx, d, 0, f)
}

// StepFor is Step for a change of one pending job, about which explain can tell more. pending is 0
// for any other step.
func (a *App) StepFor(ctx context.Context, d *dburl.Database, pending int64, f func(ctx context.Context) error) error {
	inner, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	found := make(chan *heldLock, 1)
	look := time.AfterFunc(a.Timeout/2, func() { found <- a.watchLock(inner, d) })
	err := f(inner)
	hasLooked := !look.Stop()
	if ctx.Err() != nil || !hasRunOut(inner, err) {
		return err
	}
	var lock *heldLock
	if hasLooked {
		cancel()
		lock = <-found
	}
	waited := a.explainWait(d, lock, pending, err)
	if errors.Is(err, queue.ErrUnknown) {
		return &exitError{exitUnknown, fmt.Errorf("not known whether it was done, look before you repeat it: %w", waited)}
	}
	if a.acts > 0 && a.commits == 0 {
		return fmt.Errorf("nothing was changed: %w", waited)
	}
	return waited
}

// unknownText returns a warning if it is not known whether the command has done its work, and ""
// otherwise.
func unknownText(err error) string {
	if !errors.Is(err, queue.ErrUnknown) {
		return ""
	}
	return ". It is not known whether it was done: look before you repeat it"
}

// noteRepeat says whether the command may be repeated, if err is that it is not known whether it
// was done.
func (a *App) noteRepeat(err error) {
	own, isOwn := errors.AsType[*exitError](err)
	if a.RepeatAdvice != "" && (errors.Is(err, queue.ErrUnknown) || isOwn && own.code == exitUnknown) {
		a.Notef("%s", a.RepeatAdvice)
	}
}

// hasRunOut reports whether err, the error of a step, means that its time was over.
func hasRunOut(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var own *exitError
	if errors.As(err, &own) {
		return false
	}
	switch sqlState(err) {
	case queryCanceled, lockNotAvailable:
		return true
	}
	return ctx.Err() != nil
}

// explainWait returns the error of a step whose time is over. It sends to doctor, which looks for
// locks on the table of jobs, or to explain, which also looks for a lock on the row of a pending
// job.
func (a *App) explainWait(d *dburl.Database, lock *heldLock, pending int64, err error) error {
	isRow := lock != nil && lock.table == "" && !lock.isAdvisory
	look := a.Command("doctor")
	if pending != 0 && (isRow || lock == nil) {
		look = a.Command("explain", strconv.FormatInt(pending, 10))
	}
	switch {
	case isRow && pending == 0:
		return Refusedf("waited %v for %s. %s", a.Timeout, lock, lock.remedy())
	case lock != nil:
		return Refusedf("waited %v for %s. Look further with: %s", a.Timeout, lock, look)
	case d.Scheme == dburl.SQLite:
		return Refusedf("waited %v for the SQLite file: a program has locked it, perhaps in a transaction that it has not ended. --timeout waits longer", a.Timeout)
	case sqlState(err) == lockNotAvailable:
		return Refusedf("waited %v for rows or tables that a transaction has locked. Look further with: %s", a.Timeout, look)
	}
	return fmt.Errorf("the database has not answered within %v. --timeout waits longer; look further with: %s", a.Timeout, a.Command("doctor"))
}

// Patiently runs f, which may take longer than --timeout, and says for whose lock it waits.
func (a *App) Patiently(ctx context.Context, d *dburl.Database, f func(ctx context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(a.Timeout):
		}
		if lock := findLock(ctx, d); lock != nil {
			a.Notef("waiting for %s", lock)
		}
	}
}
