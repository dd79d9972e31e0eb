package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// TestUnknownExit: a write that was not answered has an exit code of its own.
func TestUnknownExit(t *testing.T) {
	if code := exitCode(t.Context(), fmt.Errorf("enqueue: %w", queue.ErrUnknown), true); code != exitUnknown {
		t.Errorf("exit code %d, want %d", code, exitUnknown)
	}
}

// unanswered is a queue that does not know whether it has written the job.
type unanswered struct{ queue.Queue }

func (unanswered) Enqueue(context.Context, queue.DB, ...*queue.Job) error {
	return fmt.Errorf("enqueue: %w", queue.ErrUnknown)
}

// TestRepeatAdvice: an enqueue in doubt tells how to look for the job. A key keeps a second one
// from being written only while the first is live.
func TestRepeatAdvice(t *testing.T) {
	for key, want := range map[string]string{"": "look whether the job is there before you repeat it: errand jobs list --kind k", "a key": "while the first job is live"} {
		var told strings.Builder
		a := &app{err: &told}
		err := a.enqueue(t.Context(), &dburl.Database{Queue: unanswered{}}, &queue.Job{Kind: "k", Key: key})
		a.noteRepeat(err)
		if !errors.Is(err, queue.ErrUnknown) || !strings.Contains(told.String(), "errand: "+want) || !strings.Contains(told.String(), "list --k") {
			t.Errorf("key %q: error %v, told %q", key, err, told.String())
		}
		told.Reset()
		if a.noteRepeat(errors.New("refused")); told.Len() > 0 {
			t.Errorf("of an error that says that nothing was done: %q", told.String())
		}
	}
}

// TestTimeInZone: times of a schedule are shown in its zone.
func TestTimeInZone(t *testing.T) {
	at := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	for zone, want := range map[string]string{
		"Europe/Berlin": "2026-01-31T16:00:00+01:00", "": "2026-01-31T15:00:00Z", "No/Where": "2026-01-31T15:00:00Z",
	} {
		if got := timeIn(at, zone); got != want {
			t.Errorf("in %q: %s, want %s", zone, got, want)
		}
	}
}
