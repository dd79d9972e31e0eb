// Package cron reads cron expressions and computes their times in any time zone.
//
// An expression has five fields: minute, hour, day of the month, month and day of the week. A field
// is a list of values, ranges and steps, such as "*/15", "9-17" or "1,15". Months and days of the
// week also have names, and Sunday is 0 or 7. If both day fields are restricted, either may match.
// That is the syntax of github.com/robfig/cron/v3. In place of the fields an expression may be
// @yearly, @monthly, @weekly, @daily, @hourly, or "@every 90s".
//
// When clocks change, times go as in cronie. A time that the change leaves out comes once, at the
// end of the gap, and a time that it repeats comes at its first occurrence only. Expressions whose
// hour field begins with a "*", or names every hour, have no fixed time: they match each time that
// the clock shows. "@every" counts elapsed time.
package cron

import (
	"math/bits"
	"time"
)

// Spec is an expression that [Parse] has read. It is a plain value, safe for concurrent use.
type Spec struct {
	minutes, hours, days, months, weekdays uint64 // a bit for each value that matches
	anyDay, anyWeekday                     bool   // the field does not restrict the day
	isElapsed                              bool   // every hour: the times that a change of clocks repeats count, too
	every                                  time.Duration
}

// lastYear is the last year with times: what databases and RFC 3339 can write.
const lastYear = 9999

// Next returns the first time after t, in t's location. It is zero if there is none before the year
// 10000. For "@every" it is t plus the interval. The zero Spec has no times.
func (s Spec) Next(t time.Time) time.Time {
	if s.every > 0 {
		return withinYears(t.Add(s.every))
	}
	loc := t.Location()
	// Between two changes of the clocks, local times are a constant offset away from UTC.
	for at := t.Unix() + 1; ; {
		start, end := zoneBounds(time.Unix(at, 0).In(loc))
		_, offset := time.Unix(at, 0).In(loc).Zone()
		local, ok := s.nextLocal(s.firstLocal(at, offset, start))
		if !ok {
			return time.Time{}
		}
		next := time.Unix(max(local-int64(offset), at), 0).In(loc)
		if end.IsZero() || next.Before(end) {
			return withinYears(next)
		}
		at = end.Unix()
	}
}

// zoneBounds returns between which times the offset of t holds. Next walks from end to end, so end
// is always after t, or zero. On the last day of a leap year [time.Time.ZoneBounds] returns the
// beginning of that day for the end (https://go.dev/issue/81583): then end is that of the UTC day,
// as in other years.
func zoneBounds(t time.Time) (start, end time.Time) {
	const day = 24 * time.Hour
	if start, end = t.ZoneBounds(); !end.IsZero() && !end.After(t) {
		end = t.Truncate(day).Add(day)
	}
	return start, end
}

// Every returns the interval of "@every", or 0 for another Spec.
func (s Spec) Every() time.Duration { return s.every }

// Matches reports whether t is one of the times, in t's location. For "@every" each time is one.
func (s Spec) Matches(t time.Time) bool {
	return s.every > 0 || s.Next(t.Add(-time.Second)).Equal(t)
}

func withinYears(t time.Time) time.Time {
	if t.Year() > lastYear {
		return time.Time{}
	}
	return t
}

// firstLocal returns the local time to search from at the time at. start is when the clocks last
// changed. Local times up to that change have had their turn. If clocks went forward at at, the
// search begins with the times that were left out.
func (s Spec) firstLocal(at int64, offset int, start time.Time) int64 {
	local := at + int64(offset)
	if s.isElapsed || start.IsZero() {
		return local
	}
	_, before := start.Add(-time.Second).Zone()
	covered := start.Unix() + int64(before)
	if at == start.Unix() {
		return covered
	}
	return max(local, covered)
}

// farthest is how many years nextLocal searches. The 29th of February is never further away.
const farthest = 12

// nextLocal returns the first local time that matches, from local on. Local times are written as
// seconds since 1970, as if they were UTC. ok is false if there is none.
func (s Spec) nextLocal(local int64) (next int64, ok bool) {
	t := time.Unix(local, 0).UTC()
	if t.Second() > 0 {
		t = t.Add(time.Duration(60-t.Second()) * time.Second)
	}
	year, month, day := t.Date()
	from := t.Hour()*60 + t.Minute()
	for last := year + farthest; year <= last; {
		if has(s.months, int(month)) {
			first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
			days := first.AddDate(0, 1, -1).Day()
			for ; day <= days; day, from = day+1, 0 {
				weekday := (int(first.Weekday()) + day - 1) % 7
				if minute, ok := s.nextInDay(from); ok && s.matchesDay(day, weekday) {
					return first.Unix() + int64(day-1)*86400 + int64(minute)*60, true
				}
			}
		}
		day, from = 1, 0
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// matchesDay reports whether the two day fields match: either, if both restrict the day.
func (s Spec) matchesDay(day, weekday int) bool {
	d, w := has(s.days, day), has(s.weekdays, weekday)
	if s.anyDay || s.anyWeekday {
		return d && w
	}
	return d || w
}

// nextInDay returns the first minute of the day that matches, from the minute from on.
func (s Spec) nextInDay(from int) (minute int, ok bool) {
	for hour, first := from/60, from%60; hour < 24; hour, first = hour+1, 0 {
		if has(s.hours, hour) {
			if rest := s.minutes >> first; rest != 0 {
				return hour*60 + first + bits.TrailingZeros64(rest), true
			}
		}
	}
	return 0, false
}

func has(set uint64, n int) bool { return set>>n&1 == 1 }

// Due returns the latest of the times from first to now, at most most of them in their order, and
// the next time after now, in first's zone. first counts as a time even if the expression does not
// match it. If first is after now, due is empty and next is first. Due takes less than a
// millisecond, however long ago first was.
func (s Spec) Due(first, now time.Time, most int) (due []time.Time, next time.Time) {
	if first.After(now) {
		return nil, first
	}
	if s.every > 0 {
		n := now.Sub(first) / s.every
		for i := max(n-time.Duration(most)+1, 0); i <= n; i++ {
			due = append(due, first.Add(i*s.every))
		}
		return due, withinYears(first.Add((n + 1) * s.every))
	}
	now = now.In(first.Location())
	for window := time.Hour; ; window *= 24 {
		from := now.Add(-window)
		isAll := window > 24*365*24*time.Hour || !from.After(first)
		if isAll {
			due, from = append(due[:0], first), first
		} else {
			due = due[:0]
		}
		for next = s.Next(from); !next.IsZero() && !next.After(now); next = s.Next(next) {
			due = append(due, next)
		}
		if isAll || len(due) >= most {
			return due[max(len(due)-most, 0):], next
		}
	}
}
