package web

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// The thresholds of the verdict: how long a due job may wait, and how long one that no worker
// serves. They are the doctor's.
const (
	lateAfter     = time.Minute
	tooLateAfter  = 15 * time.Minute
	unservedAfter = 10 * time.Second
)

// verdict is the first line of the overview: the answer to "is all well?".
type verdict struct {
	Level string // ok, warn, fail or unknown: a class of the style sheet
	Word  string // the level in a word
	Text  string
	More  []string // further findings
}

// facts are what the verdict rests on.
type facts struct {
	readings
	workers       reading[[]driver.WorkerRecord]
	expired, held reading[listing]
	isSQL         bool // there may be workers made of SQL statements
}

// errs returns the age of each reading.
func (f *facts) errs() []lateness {
	return append(f.readings.errs(), late("Workers", f.workers), late("Expired leases", f.expired), late("Held jobs", f.held))
}

// verdict says whether all is well, and what is worst. Of facts that are older than trustedFor it
// says since when it does not know them.
func (f facts) verdict(now time.Time) verdict {
	unknown, isAwaited, err := f.distrust(now)
	v := verdict{Level: "ok", Word: "All well"}
	f.judgeQueues(&v)
	f.judgeOthers(&v)
	if len(v.More) > 0 {
		v.Text, v.More = v.More[0], v.More[1:]
		if unknown != "" {
			v.More = append(v.More, unknown)
		}
		return v
	}
	switch {
	case unknown != "" && isAwaited && err == nil:
		return verdict{Level: "unknown", Word: "Being read", Text: unknown}
	case unknown != "":
		return verdict{Level: "warn", Word: "Unknown", Text: unknown}
	case err != nil:
		return verdict{Level: "warn", Word: "Unknown", Text: "Nothing is wrong in what could be read."}
	}
	v.Text = "No job is due and waiting."
	if oldest := slices.MaxFunc(append(f.backlogs.Value, driver.Backlog{}), func(a, b driver.Backlog) int { return cmp.Compare(a.Age, b.Age) }); oldest.Queue != "" {
		v.Text = fmt.Sprintf("No job has been due for longer than %s.", duration(max(oldest.Age, time.Second).Truncate(time.Second)))
	}
	return v
}

// distrust forgets the facts that are too old, and says which these are and since when they are not
// known. isAwaited says that one of them is being read. err is why something could not be read.
func (f *facts) distrust(now time.Time) (unknown string, isAwaited bool, err error) {
	var parts []string
	check := func(l lateness, forget func()) {
		err = errors.Join(err, l.err)
		if now.Sub(l.at) <= trustedFor || l.at.IsZero() && l.err == nil && !l.isAwaited { // the backend lacks the capability
			return
		}
		forget()
		isAwaited = isAwaited || l.isAwaited
		text := strings.ToLower(l.what)
		if !l.at.IsZero() {
			text += " (since " + l.at.UTC().Format("15:04:05 UTC") + ")"
		}
		parts = append(parts, text)
	}
	check(late("Waiting times", f.backlogs), func() { f.backlogs.Value = nil })
	check(late("Paused kinds", f.paused), func() { f.paused.Value = nil })
	check(late("Workers", f.workers), func() { f.workers = reading[[]driver.WorkerRecord]{} })
	check(late("Expired leases", f.expired), func() { f.expired.Value.Jobs = nil })
	check(late("Held jobs", f.held), func() { f.held.Value.Jobs = nil })
	if now.Sub(f.rules.At) > trustedFor { // a queue that waits may be a paused one
		f.rules.Value = nil
	}
	err = errors.Join(err, f.rules.Err, f.counts.Err)
	if len(parts) == 0 {
		return "", false, err
	}
	return "Not known: " + strings.Join(parts, ", ") + ".", isAwaited, err
}

// note adds a finding. The first of the worst ones gives the word, and comes first.
func (v *verdict) note(level, word, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if severity(level) > severity(v.Level) {
		v.Level, v.Word = level, word
		v.More = slices.Insert(v.More, 0, text)
	} else {
		v.More = append(v.More, text)
	}
}

// judgeQueues notes which queues wait, the oldest due job first, and which of them nobody serves.
func (f *facts) judgeQueues(v *verdict) {
	isPaused := f.pausedQueues()
	isAnyAlive := slices.ContainsFunc(f.workers.Value, func(w driver.WorkerRecord) bool { return !w.Vanished })
	for _, b := range slices.SortedFunc(slices.Values(f.backlogs.Value), func(a, b driver.Backlog) int { return cmp.Compare(b.Age, a.Age) }) {
		switch {
		case isPaused[b.Queue]:
			v.note("warn", "Paused", "Queue %s is paused. Its oldest due job has waited for %s.", b.Queue, duration(b.Age))
			continue
		case b.Age >= tooLateAfter:
			v.note("fail", "Stuck", "The oldest due job of queue %s has waited for %s.", b.Queue, duration(b.Age))
		case b.Age >= lateAfter:
			v.note("warn", "Behind", "The oldest due job of queue %s has waited for %s.", b.Queue, duration(b.Age))
		}
		if isAnyAlive && b.Age >= unservedAfter && !isServed(f.workers.Value, b.Queue) {
			v.note("fail", "Not served", "No live worker serves queue %s. Its oldest due job has waited for %s.", b.Queue, duration(b.Age))
		}
	}
	if len(f.backlogs.Value) > 0 && !isAnyAlive && !f.workers.At.IsZero() {
		text := "Jobs are due, and no worker has reported itself."
		if f.isSQL {
			text += " Workers made of SQL statements do not."
		}
		v.note("warn", "No workers", "%s", text)
	}
}

// judgeOthers notes what else a person has to look at.
func (f *facts) judgeOthers(v *verdict) {
	if n := len(f.expired.Value.Jobs); n > 0 {
		v.note("warn", "Workers lost", "%s whose lease has expired: no worker has reclaimed them.", atLeast(n, f.expired.Value.Next, "running job"))
	}
	if _, vanished := workersNote(f.workers); vanished > 0 {
		v.note("warn", "Workers lost", "%s without a sign of life for %s.", plural(int64(vanished), "worker"), duration(driver.VanishedAfter))
	}
	for _, kind := range f.paused.Value {
		v.note("warn", "Paused", "Kind %s is paused.", kind)
	}
	if n := len(f.held.Value.Jobs); n > 0 {
		v.note("warn", "Held", "%s: their groups wait for a person.", atLeast(n, f.held.Value.Next, "held job"))
	}
}

func severity(level string) int { return slices.Index([]string{"ok", "warn", "fail"}, level) }
