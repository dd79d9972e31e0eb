package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
)

// TestUnknownExit: a write that was not answered has an exit code of its own.
func TestUnknownExit(t *testing.T) {
	if code := exitCode(t.Context(), fmt.Errorf("enqueue: %w", queue.ErrUnknown), true); code != exitUnknown {
		t.Errorf("exit code %d, want %d", code, exitUnknown)
	}
}

// TestNoteRepeat: the advice of a command in doubt is told if it is not known whether it was done.
func TestNoteRepeat(t *testing.T) {
	var told strings.Builder
	a := &App{Err: &told, RepeatAdvice: "look first"}
	if a.noteRepeat(errors.New("refused")); told.Len() > 0 {
		t.Errorf("of an error that says that nothing was done: %q", told.String())
	}
	if a.noteRepeat(fmt.Errorf("enqueue: %w", queue.ErrUnknown)); told.String() != "errand: look first\n" {
		t.Errorf("told %q", told.String())
	}
}
