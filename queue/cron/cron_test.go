package cron_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue/cron"
)

func parse(t testing.TB, text string) cron.Spec {
	t.Helper()
	s, err := cron.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return s
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestNext: the times that follow, in zones whose clocks change.
func TestNext(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct {
		spec, zone, from string
		want             []string
	}{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00 +0100", // in the gap
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"0,30 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00 +0100", // both in the gap: once
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-30 02:00:00 +0200"}},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28 12:00:00 +0100", // its end
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-30 03:00:00 +0200"}},
		{"0 2-3 * * *", "Europe/Berlin", "2026-03-28 12:00:00 +0100",
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-30 02:00:00 +0200"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00 +0200", // repeated
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100"}},
		{"0 3 * * *", "Europe/Berlin", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 03:00:00 +0100", "2026-10-26 03:00:00 +0100"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25 02:15:00 +0100", // from within the second pass
			[]string{"2026-10-26 02:30:00 +0100"}},
		{"30 * * * *", "Europe/Berlin", "2026-10-25 02:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-25 02:30:00 +0100", "2026-10-25 03:30:00 +0100"}},
		{"30 0-23 * * *", "Europe/Berlin", "2026-10-25 02:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-25 02:30:00 +0100"}},
		{"30 * * * *", "Europe/Berlin", "2026-03-29 01:00:00 +0100",
			[]string{"2026-03-29 01:30:00 +0100", "2026-03-29 03:30:00 +0200"}},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-29 00:00:00 +0100", []string{"2026-03-29 04:00:00 +0200"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00:00 +1030", // half an hour is left out
			[]string{"2026-10-04 02:30:00 +1100", "2026-10-05 02:15:00 +1100"}},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00:00 +1100", // and repeated
			[]string{"2026-04-05 01:45:00 +1100", "2026-04-06 01:45:00 +1030"}},
		{"0 9 * * *", "Pacific/Apia", "2011-12-29 08:00:00 -1000", // the 30th did not happen
			[]string{"2011-12-29 09:00:00 -1000", "2011-12-31 00:00:00 +1400", "2011-12-31 09:00:00 +1400"}},
		{"@daily", "America/Havana", "2026-03-07 12:00:00 -0500", []string{"2026-03-08 01:00:00 -0400", "2026-03-09 00:00:00 -0400"}},
		{"0 0 29 2 *", "UTC", "2096-03-01 00:00:00 +0000", []string{"2104-02-29 00:00:00 +0000"}},
		{"0 12 13 * 5", "UTC", "2026-11-01 00:00:00 +0000", // either day field
			[]string{"2026-11-06 12:00:00 +0000", "2026-11-13 12:00:00 +0000", "2026-11-20 12:00:00 +0000"}},
		{"0 12 */2 * 5", "UTC", "2026-11-01 00:00:00 +0000", []string{"2026-11-01 12:00:00 +0000", "2026-11-03 12:00:00 +0000"}},
		{"0 0 * * 7", "UTC", "2026-11-02 00:00:00 +0000", []string{"2026-11-08 00:00:00 +0000"}},
		{"0 0 * jan-FEB sat", "UTC", "2026-11-02 00:00:00 +0000", []string{"2027-01-02 00:00:00 +0000"}},
		{"@every 90s", "Europe/Berlin", "2026-03-29 01:59:00 +0100", []string{"2026-03-29 03:00:30 +0200"}},
		{"@hourly", "Asia/Kathmandu", "2026-11-02 10:10:10 +0545", []string{"2026-11-02 11:00:00 +0545"}},
	} {
		at, err := time.ParseInLocation(layout, c.from, zone(t, c.zone))
		if err != nil {
			t.Fatal(err)
		}
		at = at.In(zone(t, c.zone))
		s := parse(t, c.spec)
		var got []string
		for range c.want {
			at = s.Next(at)
			got = append(got, at.Format(layout))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in %s after %s:\n got %v\nwant %v", c.spec, c.zone, c.from, got, c.want)
		}
	}
}

// TestNextEnds: there are no times after the year 9999, and the zero Spec has none.
func TestNextEnds(t *testing.T) {
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, s := range []cron.Spec{{}, parse(t, "* * * * *"), parse(t, "@every 1s")} {
		if next := s.Next(end); !next.IsZero() {
			t.Errorf("Next at the end of the year 9999: got %v, want zero", next)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "0 fields",
		"* * * *":                "4 fields",
		"0 * * * * *":            "for seconds use @every",
		"60 * * * *":             `minute "60": 60: between 0 and 59`,
		"* 24 * * *":             "hour",
		"* * 0 * *":              "between 1 and 31",
		"* * * 13 *":             "month",
		"* * * * 8":              "between 0 and 7",
		"5-1 * * * *":            "from high to low",
		"*/0 * * * *":            "a step of 0",
		"*/90 * * * *":           `minute "*/90": a step of 90: at most 60, for values between 0 and 59`,
		"1-5/61 * * * *":         "at most 60",
		"0 */25 * * *":           `hour "*/25": a step of 25: at most 24`,
		"0 0 */32 * *":           "at most 31",
		"0 0 1 */13 *":           "at most 12",
		"0 0 * * */8":            "at most 7",
		"*/x * * * *":            "not a number",
		"1,,2 * * * *":           "not a number",
		"-1 * * * *":             "not a number",
		"+1 * * * *":             "not a number",
		"1-2-3 * * * *":          "not a number",
		"* * * foo *":            "not a number",
		"0 0 31 2 *":             "never comes",
		"0 0 30,31 feb ?":        "never comes",
		"0 0 31 2,4,6,9,11 *":    "never comes",
		"TZ=UTC * * * * *":       "set Zone instead",
		"CRON_TZ=UTC * * * * *":  "set Zone instead",
		"@reboot":                "unknown word",
		"@every":                 "unknown word",
		"@every x":               "not a duration",
		"@every 500ms":           "between 1s and",
		"@every -5m":             "between 1s and",
		"@every 1000000h":        "between 1s and",
		"@every 1s1ns":           "whole microseconds",
		"99999999999999 * * * *": "not a number",
	} {
		if _, err := cron.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): got error %v, want one with %q", text, err, want)
		}
	}
}

// TestDue: the latest times of a long absence, and the next one.
func TestDue(t *testing.T) {
	start := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		spec        string
		first, last time.Duration // after start
		most, want  int
		next        time.Duration
	}{
		{"0 * * * *", 0, -time.Second, 5, 0, 0},
		{"0 * * * *", 0, 0, 5, 1, time.Hour},
		{"0 * * * *", 0, 3*time.Hour + time.Minute, 1, 1, 4 * time.Hour},
		{"0 * * * *", 0, 3*time.Hour + time.Minute, 100, 4, 4 * time.Hour},
		{"* * * * *", 0, 3 * time.Hour, 100, 100, 3*time.Hour + time.Minute},
		{"* * * * *", 0, 24 * 365 * 100 * time.Hour, 100, 100, 24*365*100*time.Hour + time.Minute},
		{"* * * * *", 7 * time.Second, 65 * time.Second, 100, 2, 2 * time.Minute}, // first counts
		{"0 9 1 11 *", 0, 20 * 24 * 365 * time.Hour, 3, 3, (20*365 + 5) * 24 * time.Hour},
		{"@every 90s", time.Second, time.Hour, 100, 40, time.Hour + time.Second},
		{"@every 1s", 0, 24 * 365 * 100 * time.Hour, 3, 3, 24*365*100*time.Hour + time.Second},
	} {
		began := time.Now()
		due, next := parse(t, c.spec).Due(start.Add(c.first), start.Add(c.last), c.most)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("%q from %v to %v: took %v", c.spec, c.first, c.last, took)
		}
		if len(due) != c.want || !next.Equal(start.Add(c.next)) {
			t.Errorf("%q from %v to %v: got %d times, next %v; want %d, %v", c.spec, c.first, c.last, len(due), next.Sub(start), c.want, c.next)
		}
		for i, at := range due {
			if at.After(start.Add(c.last)) || at.Before(start.Add(c.first)) || i > 0 && !at.After(due[i-1]) {
				t.Errorf("%q: due %v are not in order", c.spec, due)
			}
		}
	}
}

// TestDueInZone: the times of an absence are those of first's zone, whatever the zone of now.
func TestDueInZone(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo", "Australia/Lord_Howe", "UTC"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"30 2 * * *", "0 9 * * 1-5", "0 8,20 * * *", "0 */2 * * *", "*/15 8-18 * * *", "0 0 1 * *", "@daily"} {
			spec := parse(t, text)
			for day := range 60 {
				first := spec.Next(time.Date(2027, 3, 1+day*6, 0, 0, 0, 0, location))
				now := first.Add(time.Duration(day*day) * time.Hour / 7)
				want := []time.Time{first}
				next := spec.Next(first)
				for ; !next.After(now); next = spec.Next(next) {
					want = append(want, next)
				}
				for _, most := range []int{1, 5, 100} {
					due, got := spec.Due(first, now.UTC(), most)
					if kept := want[max(len(want)-most, 0):]; !slices.EqualFunc(due, kept, time.Time.Equal) || !got.Equal(next) {
						t.Fatalf("%q in %s from %v to %v, at most %d: got %v, next %v; want %v, next %v", text, zone, first, now, most, due, got, kept, next)
					}
				}
			}
		}
	}
}
