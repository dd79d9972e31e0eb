package queue

import (
	"bytes"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
)

// PanicError is the error that a worker makes of a handler's panic. The job is retried as after a
// plain error. The worker logs the stack, and does not store it with the job.
type PanicError struct {
	Value any    // the value of the panic
	Stack []byte // the stack of the goroutine that panicked, as [debug.Stack] returns it
}

// RecoveredPanic makes a [*PanicError] of the value that recover has returned. If the value is one
// already, RecoveredPanic returns it. Only the deferred function that has called recover may call
// it: there the stack still shows where the panic was.
func RecoveredPanic(value any) *PanicError {
	if p, ok := value.(*PanicError); ok && p != nil {
		return p
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// Error returns the panic's value and its place, such as "panic: boom (mail.go:12)".
func (e *PanicError) Error() string {
	if place := e.place(); place != "" {
		return fmt.Sprintf("panic: %v (%s)", e.Value, place)
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns Value if it is an error, and nil if not.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// place returns the file and line of the first function in Stack that panicked and is not part of
// Go's standard library; "" if there is none. A program that was built with -trimpath does not show
// which files are Go's own: then it is the first function outside of package runtime.
//
// In the stack each function takes two lines: its name, and its file after a tab. Go's own function
// panic stands above the function that panicked. If a deferred function has panicked again, the
// first panic is the lowest.
func (e *PanicError) place() string {
	begin := bytes.LastIndex(e.Stack, []byte("\npanic("))
	if begin < 0 {
		return ""
	}
	goFiles, function := "", "" // goFiles is the directory of Go's own files, such as /usr/local/go/src/
	for line := range strings.Lines(string(e.Stack[begin+1:])) {
		file, isFile := strings.CutPrefix(line, "\t")
		file, _, _ = strings.Cut(strings.TrimSpace(file), " ")
		switch {
		case !isFile:
			function = line
		case strings.HasPrefix(function, "created by "):
			return ""
		case strings.HasPrefix(function, "panic("):
			goFiles, _, _ = strings.Cut(file, "runtime/panic.go")
		case !strings.HasPrefix(function, "runtime.") && (goFiles == "" || !strings.HasPrefix(file, goFiles)):
			return path.Base(file)
		}
	}
	return ""
}
