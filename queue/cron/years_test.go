package cron_test

import (
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/internal/extent"
)

// clock is what a clock on the wall shows.
type clock struct{ minute, hour, day, month, weekday int }

// TestTwentyYears compares Next with a walk through each minute of two years, and with
// ERRAND_TESTS=whole of twenty, in zones whose clocks change by an hour, by half an hour, and by a
// day.
func TestTwentyYears(t *testing.T) {
	specs := []struct {
		text      string
		isElapsed bool
		matches   func(c clock) bool
	}{
		{"30 2 * * *", false, func(c clock) bool { return c.minute == 30 && c.hour == 2 }},
		{"0 3 * * *", false, func(c clock) bool { return c.minute == 0 && c.hour == 3 }},
		{"15,45 1-3 * * *", false, func(c clock) bool { return c.minute%30 == 15 && c.hour >= 1 && c.hour <= 3 }},
		{"59 23 30 * 0", false, func(c clock) bool { return c.minute == 59 && c.hour == 23 && (c.day == 30 || c.weekday == 0) }},
		{"0 0 * * *", false, func(c clock) bool { return c.minute == 0 && c.hour == 0 }},
		{"*/20 2 * 3,4,10 *", false, func(c clock) bool {
			return c.minute%20 == 0 && c.hour == 2 && (c.month == 3 || c.month == 4 || c.month == 10)
		}},
		{"*/30 * * * *", true, func(c clock) bool { return c.minute%30 == 0 }},
		{"5 */2 * * 0", true, func(c clock) bool { return c.minute == 5 && c.hour%2 == 0 && c.weekday == 0 }},
	}
	from, until := time.Date(2006, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if !extent.Whole() {
		until = time.Date(2012, 3, 1, 0, 0, 0, 0, time.UTC)
		from = time.Date(2010, 3, 1, 0, 0, 0, 0, time.UTC)
	}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"} {
		loc := zone(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := make([]time.Time, len(specs))
			for i, s := range specs {
				next[i] = parse(t, s.text).Next(from.In(loc))
			}
			walk(loc, from.Unix(), until.Unix(), func(at int64, now clock, first []clock) {
				for i, s := range specs {
					hit := slices.ContainsFunc(first, s.matches)
					if s.isElapsed {
						hit = s.matches(now)
					}
					if got := next[i].Unix(); hit && got != at || !hit && got <= at {
						t.Fatalf("%q: got %v at %v, which matches: %v", s.text, next[i], time.Unix(at, 0).In(loc), hit)
					}
					if hit {
						next[i] = parse(t, s.text).Next(next[i])
					}
				}
			})
		})
	}
}

// walk calls do for each minute after from: with what the clock shows, and with what it shows or
// leaves out for the first time.
func walk(loc *time.Location, from, until int64, do func(at int64, now clock, first []clock)) {
	latest := local(from, loc) // the latest local time that was shown
	var first []clock
	for at := from + 60; at < until; at += 60 {
		now := local(at, loc)
		first = first[:0]
		for ; latest < now; latest += 60 {
			first = append(first, read(latest+60))
		}
		do(at, read(now), first)
	}
}

func read(local int64) clock {
	t := time.Unix(local, 0).UTC()
	return clock{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())}
}

// local returns the local time as seconds since 1970, as if it were UTC.
func local(at int64, loc *time.Location) int64 {
	_, offset := time.Unix(at, 0).In(loc).Zone()
	return at + int64(offset)
}
