package cli

import (
	"time"

	"github.com/spf13/pflag"
)

// moment is the value of a flag that names a time: as RFC 3339, or as how long ago it was.
type moment struct{ at *time.Time }

func (m moment) String() string {
	if m.at == nil || m.at.IsZero() {
		return ""
	}
	return m.at.Format(time.RFC3339)
}

// Set implements [pflag.Value].
func (m moment) Set(text string) error {
	at, err := time.Parse(time.RFC3339, text)
	if ago, isAgo := time.ParseDuration(text); isAgo == nil && ago >= 0 {
		at, err = time.Now().Add(-ago), nil
	}
	if err != nil {
		return Usagef("neither how long ago, such as 90m, nor RFC 3339, such as 2026-01-31T15:00:00Z")
	}
	*m.at = at.UTC()
	return CheckYear(*m.at)
}

// CheckYear returns an error if t, in UTC, is outside of the years in which a job may have a time.
// The zero time is: it would mean no bound.
func CheckYear(t time.Time) error {
	if year := t.Year(); year < 1970 || year > 9999 {
		return Usagef("%s is not in the years 1970 to 9999", t.Format(time.RFC3339))
	}
	return nil
}

func (m moment) Type() string { return "time" }

// MomentFlag adds a flag for a time.
func MomentFlag(flags *pflag.FlagSet, at *time.Time, name, usage string) {
	flags.Var(moment{at}, name, usage)
}
