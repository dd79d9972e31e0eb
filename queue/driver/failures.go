package driver

import (
	"bytes"
	"errors"
	"strings"

	"github.com/errandhq/errand/queue"
)

const (
	// MaxHistory is how many failures a job's History has at most: the last ones.
	MaxHistory = 10
	// MaxHistoryText is how many characters of an error text, and of a stack, a [queue.Failure] keeps.
	MaxHistoryText = 2048
)

// ReclaimedCancelled is the LastError of a job that its worker was asked to cancel, and that was
// reclaimed because its lease has expired.
const ReclaimedCancelled = "errand: cancelled, and the lease of its worker expired"

// StackText returns the top of the stack of the panic in err, beginning with the function that
// panicked: text that backends store in a job's [queue.Failure], at most MaxHistoryText bytes. It
// returns "" if errors.As finds no [*queue.PanicError] in err.
func StackText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil { // a method of err
			text = ""
		}
	}()
	p, ok := errors.AsType[*queue.PanicError](err)
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
