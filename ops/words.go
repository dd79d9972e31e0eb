package ops

import (
	"fmt"
	"strings"
)

// count returns a number with its noun: "1 job", "2 jobs". one is the noun for one.
func count[T int | int64](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// maxNamed is how many names one line has at most.
const maxNamed = 5

// enumerate joins names by commas: the first five, and how many more there are.
func enumerate(names []string) string {
	if n := len(names) - maxNamed; n > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}
