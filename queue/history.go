package queue

import (
	"bytes"
	"errors"
	"strings"
	"time"
)

const (
	// MaxHistory is how many failures a job's History has at most: the last ones.
	MaxHistory = 10
	// MaxHistoryText is how many characters of an error text, and of a stack, a [Failure] keeps.
	MaxHistoryText = 2048
)

// Failure is a run of a job that failed, as [Record].History keeps it. A run that was released, or
// snoozed, has not failed.
type Failure struct {
	// At is when the failure was recorded, by the backend's clock.
	At time.Time `json:"at"`
	// Attempt is the number of the run, from 1. It begins again with 1 after a redrive.
	Attempt int `json:"attempt"`
	// Redrives is how often the job had been redriven before the run.
	Redrives int `json:"redrives,omitempty"`
	// Worker is the name of the job's holder. For a job of ClaimTx it is "transaction".
	Worker string `json:"worker,omitempty"`
	// Error is the error text, cut to [MaxHistoryText] characters.
	Error string `json:"error,omitempty"`
	// Stack is the top of the stack of a panic, as [StackText] returns it; "" for other errors.
	Stack string `json:"stack,omitempty"`
	// Took is how long the run took: from the claim until At. It includes the wait for a slot, and,
	// after a crash, the time until the job was reclaimed.
	Took time.Duration `json:"took_ns"`
}

// StackText returns the top of the stack of the panic in err, beginning with the function that
// panicked: text that backends store in a job's [Failure], at most MaxHistoryText bytes. It returns
// "" if errors.As finds no [*PanicError] in err.
func StackText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil { // a method of err
			text = ""
		}
	}()
	p, ok := errors.AsType[*PanicError](err)
	if !ok {
		return ""
	}
	stack := p.Stack[max(bytes.LastIndex(p.Stack, []byte("\npanic(")), 0):]
	if above, below, found := bytes.Cut(stack, []byte("runtime/panic.go:")); found && bytes.Count(above, []byte("\n")) <= 2 {
		_, stack, _ = bytes.Cut(below, []byte("\n"))
	}
	if len(stack) > MaxHistoryText {
		stack = stack[:bytes.LastIndexByte(stack[:MaxHistoryText], '\n')+1]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(strings.TrimSpace(string(stack)), "?"), "\x00", "?")
}
