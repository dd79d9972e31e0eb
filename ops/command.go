package ops

import (
	"fmt"
	"regexp"
	"strings"
)

// command returns a command line of cmd/errand, for a POSIX shell. A test there holds each to the
// commands and flags that exist.
func command(args ...any) string {
	line := "errand"
	for _, arg := range args {
		word := fmt.Sprint(arg)
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		line += " " + word
	}
	return line
}

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w./:@-]+$`)
