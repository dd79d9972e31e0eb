package words

import (
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
)

// More says that n were left out, if there are any.
func More(n int) []string {
	if n <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("and %d more", n)}
}

// Seconds makes a duration of what a statement returns as seconds.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Short writes a duration for people: longer ones are rounded to minutes or seconds.
func Short(d time.Duration) string {
	switch {
	case d >= 30*24*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 10*time.Minute:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Millisecond)
	}
	return plain.Duration(d)
}

// Count returns a number with its noun: "1 job", "2 jobs". one is the noun for one.
func Count[T int | int64](n T, one string) string {
	return plain.Count(n, one)
}

// MaxNamed is how many names one line has at most.
const MaxNamed = 5

// Enumerate joins names by commas: the first five, and how many more there are.
func Enumerate(names []string) string {
	if n := len(names) - MaxNamed; n > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:MaxNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}
