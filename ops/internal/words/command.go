package words

import (
	"cmp"
	"fmt"

	"github.com/errandhq/errand/internal/plain"
)

// Program is how the command lines of cmd/errand begin that a remedy names; "" means errand.
type Program string

// Command returns a command line of cmd/errand, for a POSIX shell. A test there holds each to the
// commands and flags that exist.
func (p Program) Command(args ...any) string {
	line := string(cmp.Or(p, "errand"))
	for _, arg := range args {
		line += " " + plain.ShellQuote(fmt.Sprint(arg))
	}
	return line
}
