package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
)

func TestPanicError(t *testing.T) {
	err := &queue.PanicError{Value: errPlain, Stack: []byte("stack")}
	if !errors.Is(err, errPlain) || err.Error() != "panic: plain" {
		t.Errorf("got %q, want its value", err)
	}
	if again := queue.RecoveredPanic(err); again != err {
		t.Errorf("a PanicError that panicked again: got %v, want it as it is", again)
	}
}

// recovered returns the error of a panic of f.
func recovered(f func()) (err *queue.PanicError) {
	defer func() { err = queue.RecoveredPanic(recover()) }()
	f()
	return nil
}

// twice panics again with a panic that it has recovered.
func twice(f func()) {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Errorf("again: %v", v))
		}
	}()
	f()
}

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("in the user's method") }

func noTask() *task         { return nil }
func noMap() map[string]int { return nil }

// TestPanicPlace: the text names the line in the user's code, however the panic came about.
func TestPanicPlace(t *testing.T) {
	for name, f := range map[string]func(){
		"panic":           func() { panic("boom") },
		"error":           func() { panic(errPlain) },
		"nil pointer":     func() { noTask().N++ },
		"nil map":         func() { noMap()["a"] = 1 },
		"index":           func() { _ = os.Args[len(os.Args)] },
		"type assertion":  func() { _ = any(1).(string) },
		"library":         func() { _ = strings.Repeat("a", -1-len(os.Args)) },
		"method":          func() { _, _ = json.Marshal(panicking{}) },
		"panicked twice":  func() { twice(func() { panic("boom") }) },
		"nil":             func() { panic(nil) },
		"in a deferred f": func() { defer func() { panic("later") }() },
	} {
		err := recovered(f)
		if !regexp.MustCompile(`^panic: .* \(panic_test\.go:\d+\)$`).MatchString(err.Error()) {
			t.Errorf("%s: got %q, want a place in panic_test.go; the stack:\n%s", name, err, err.Stack)
		}
		if !strings.Contains(string(err.Stack), "TestPanicPlace") {
			t.Errorf("%s: the stack is not the handler's:\n%s", name, err.Stack)
		}
	}
}

// TestPanicPlaceTrimmed: the place is found in the stack of a program built with -trimpath, too.
func TestPanicPlaceTrimmed(t *testing.T) {
	const stack = `goroutine 7 [running]:
runtime/debug.Stack()
	runtime/debug/stack.go:26 +0x5e
panic({0x7fd3c0?, 0x8c0e50?})
	runtime/panic.go:860 +0x13a
runtime.panicmem(...)
	runtime/panic.go:336
mail/send.Letter(...)
	mail/send/letter.go:12 +0x1d
created by main.main in goroutine 1
	mail/main.go:30 +0x85
`
	for text, want := range map[string]string{
		stack: "panic: boom (letter.go:12)",
		strings.Replace(stack, "mail/send.Letter", "runtime.gopark", 1): "panic: boom",
	} {
		if got := (&queue.PanicError{Value: "boom", Stack: []byte(text)}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func ExamplePanicError() {
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error { panic("boom") })
	defer func() {
		err := queue.RecoveredPanic(recover())
		fmt.Println(regexp.MustCompile(`\d+`).ReplaceAllString(err.Error(), "12"))
	}()
	_ = handler.HandleJob(context.Background(), &queue.Job{})
	// Output: panic: boom (panic_test.go:12)
}
