package plain

import "fmt"

// Count returns a number with its noun: "1 job", "2 jobs". one is the noun for one.
func Count[T int | int64](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
