// Package check has the rules of names and texts, and the bounds, that an application's words, the
// contract for backends and the engine share.
package check

import (
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
)

const (
	// MaxDelay is the longest delay, interval and age.
	MaxDelay = 100 * 365 * 24 * time.Hour
	// MaxAttempts is the highest number of attempts.
	MaxAttempts = 1_000_000
	// MaxGroup is the longest name of a group, in bytes.
	MaxGroup = 200

	// maxLease keeps the sum of a time and a lease within the range of every clock.
	maxLease = 365 * 24 * time.Hour
)

// Name returns what is wrong with a name, or "": it must have 1 to 200 printable ASCII bytes. Every
// database, log and dashboard shows those unchanged.
func Name(name string) (problem string) {
	if name == "" {
		return "empty"
	}
	if len(name) > 200 {
		return fmt.Sprintf("%d bytes: at most 200", len(name))
	}
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			return fmt.Sprintf("byte %#02x at %d: printable ASCII only", name[i], i)
		}
	}
	return ""
}

// Text returns why SQL databases cannot store s, or "".
func Text(s string) (problem string) {
	if !utf8.ValidString(s) {
		return "invalid UTF-8"
	}
	for i := range len(s) {
		if s[i] == 0 {
			return fmt.Sprintf("NUL byte at %d", i)
		}
	}
	return ""
}

// Group returns why no job can have that group, or "". No group is right, too.
func Group(group string) (problem string) {
	if len(group) > MaxGroup {
		return fmt.Sprintf("%d bytes: at most %d", len(group), MaxGroup)
	}
	return Text(group)
}

// Lease returns why no claim can last for lease, or "".
func Lease(lease time.Duration) (problem string) {
	if lease < time.Millisecond || lease > maxLease {
		return fmt.Sprintf("%v: between 1ms and %v", lease, maxLease)
	}
	return ""
}

// IsNil reports whether v is nil or a nil pointer, as a failed New leaves it in an interface.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
