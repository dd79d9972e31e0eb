package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

//go:noinline
func explode(depth int) {
	if depth > 0 {
		explode(depth - 1)
		return
	}
	panic("boom")
}

func panicIn(f func()) (err error) {
	defer func() { err = queue.RecoveredPanic(recover()) }()
	f()
	return nil
}

// TestStackText: it begins with the function that panicked, and is never long.
func TestStackText(t *testing.T) {
	for depth, most := range map[int]int{0: driver.MaxHistoryText, 90: driver.MaxHistoryText} {
		text := driver.StackText(fmt.Errorf("wrapped: %w", panicIn(func() { explode(depth) })))
		first, _, _ := strings.Cut(text, "\n")
		if !strings.Contains(first, "queue_test.explode(") || len(text) > most || !strings.Contains(text, "history_test.go:") {
			t.Errorf("stack of a panic %d calls deep: got %d bytes, beginning with %q; want explode", depth, len(text), first)
		}
	}
	var p *int
	if text := driver.StackText(panicIn(func() { *p = 1 })); !strings.Contains(text, "history_test.go:") {
		t.Errorf("stack of a nil pointer: got %s; want this file", text)
	}
	for _, stack := range []string{"", "x", "\npanic(", "a\x00\xff\npanic(1)\n\tx\n" + strings.Repeat("y", 10_000)} {
		if text := driver.StackText(&queue.PanicError{Value: 1, Stack: []byte(stack)}); len(text) > driver.MaxHistoryText || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			t.Errorf("stack of %.20q: got %.40q, %d bytes", stack, text, len(text))
		}
	}
	for _, err := range []error{nil, errors.New("plain"), (*queue.PanicError)(nil)} {
		if text := driver.StackText(err); text != "" {
			t.Errorf("stack of %T: got %q, want none", err, text)
		}
	}
}
