package main

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

func (m moment) Set(text string) error {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		*m.at = time.Now().Add(-ago).UTC()
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return usagef("neither how long ago, such as 90m, nor RFC 3339, such as 2026-01-31T15:00:00Z")
	}
	*m.at = at.UTC()
	return nil
}

func (m moment) Type() string { return "time" }

// momentFlag adds a flag for a time.
func momentFlag(flags *pflag.FlagSet, at *time.Time, name, usage string) {
	flags.Var(moment{at}, name, usage)
}
