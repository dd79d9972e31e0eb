package web

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// The thresholds of the verdict: how long a due job may wait.
const (
	lateAfter    = time.Minute
	tooLateAfter = 15 * time.Minute
)

// verdict is the first line of the overview: the answer to "is all well?".
type verdict struct {
	Level string // ok, warn, fail or unknown: a class of the style sheet
	Word  string // the level in a word
	Text  string
	More  []string // further findings
}

// verdict says whether all is well, and what is worst.
func (r readings) verdict(expired reading[listing], workers reading[crew]) verdict {
	if r.counts.At.IsZero() && r.counts.Err != nil {
		text, _ := explainError(r.counts.Err)
		return verdict{Level: "fail", Word: "Unknown", Text: text}
	}
	v := verdict{Level: "ok", Word: "All well"}
	note := func(level, word, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if severity(level) > severity(v.Level) {
			v.Level, v.Word = level, word
			v.More = slices.Insert(v.More, 0, text)
		} else {
			v.More = append(v.More, text)
		}
	}
	isPaused := r.pausedQueues()
	for _, b := range slices.SortedFunc(slices.Values(r.backlogs.Value), func(a, b queue.Backlog) int { return cmp.Compare(b.Age, a.Age) }) {
		switch {
		case isPaused[b.Queue]:
			note("warn", "Paused", "Queue %s is paused. Its oldest due job has waited for %s.", b.Queue, duration(b.Age))
		case b.Age >= tooLateAfter:
			note("fail", "Stuck", "The oldest due job of queue %s has waited for %s.", b.Queue, duration(b.Age))
		case b.Age >= lateAfter:
			note("warn", "Behind", "The oldest due job of queue %s has waited for %s.", b.Queue, duration(b.Age))
		}
	}
	if n := len(expired.Value.Jobs); n > 0 {
		note("warn", "Workers lost", "%s whose lease has expired: no worker has reclaimed them.", atLeast(n, expired.Value.Next, "running job"))
	}
	if len(r.backlogs.Value) > 0 && !isAnyAlive(workers) {
		text := "Jobs are due, and no worker has reported itself."
		if r.isSQL {
			text += " Workers made of SQL statements do not."
		}
		note("warn", "No workers", "%s", text)
	}
	if _, vanished := workersNote(workers); vanished > 0 {
		note("warn", "Workers lost", "%s without a sign of life for %s.", plural(int64(vanished), "worker"), duration(queue.VanishedAfter))
	}
	for _, kind := range r.paused.Value {
		note("warn", "Paused", "Kind %s is paused.", kind)
	}
	if n := countOf(r.counts.Value, queue.StatusHeld); n > 0 {
		note("warn", "Held", "%s: their groups wait for a person.", plural(n, "held job"))
	}
	if len(v.More) > 0 {
		v.Text, v.More = v.More[0], v.More[1:]
		return v
	}
	if r.counts.IsAwaited || r.backlogs.IsAwaited || r.rules.IsAwaited || r.paused.IsAwaited || expired.IsAwaited || workers.IsAwaited {
		return verdict{Level: "unknown", Word: "Being read", Text: "Nothing is wrong in what is known so far."}
	}
	if errors.Join(r.counts.Err, r.backlogs.Err, r.rules.Err, r.paused.Err, expired.Err, workers.Err) != nil {
		return verdict{Level: "warn", Word: "Unknown", Text: "Nothing is wrong in what could be read."}
	}
	v.Text = "No job is due and waiting."
	if oldest := slices.MaxFunc(append(r.backlogs.Value, queue.Backlog{}), func(a, b queue.Backlog) int { return cmp.Compare(a.Age, b.Age) }); oldest.Queue != "" {
		v.Text = fmt.Sprintf("No job has been due for longer than %s.", duration(max(oldest.Age, time.Second).Truncate(time.Second)))
	}
	return v
}

func severity(level string) int { return slices.Index([]string{"ok", "warn", "fail"}, level) }
