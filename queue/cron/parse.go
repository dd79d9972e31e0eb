package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// field is the range of a field's values, and their names.
type field struct {
	name      string
	low, high int
	names     string // three letters each, in order, from low
}

var (
	minuteField  = field{"minute", 0, 59, ""}
	hourField    = field{"hour", 0, 23, ""}
	dayField     = field{"day of the month", 1, 31, ""}
	monthField   = field{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}
	weekdayField = field{"day of the week", 0, 6, "sunmontuewedthufrisat"}
)

var shorthands = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads an expression. The error says which field is bad and why. An expression that never
// matches, such as "0 0 31 2 *", is an error.
func Parse(expression string) (Spec, error) {
	const prefix = "@every "
	text := strings.TrimSpace(expression)
	switch {
	case strings.HasPrefix(text, prefix):
		return parseEvery(strings.TrimSpace(text[len(prefix):]))
	case strings.HasPrefix(text, "@"):
		fields, ok := shorthands[text]
		if !ok {
			return Spec{}, errors.New("unknown word: known are @yearly, @monthly, @weekly, @daily, @hourly and @every")
		}
		text = fields
	case strings.HasPrefix(text, "TZ="), strings.HasPrefix(text, "CRON_TZ="):
		return Spec{}, errors.New("begins with a time zone: set Zone instead")
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return Spec{}, fmt.Errorf("%d fields: five are needed (minute, hour, day, month, day of the week); for seconds use @every", len(fields))
	}
	return parseFields(fields)
}

func parseFields(fields []string) (s Spec, err error) {
	for i, f := range []struct {
		field
		set *uint64
		any *bool
	}{
		{minuteField, &s.minutes, new(bool)},
		{hourField, &s.hours, new(bool)},
		{dayField, &s.days, &s.anyDay},
		{monthField, &s.months, new(bool)},
		{weekdayField, &s.weekdays, &s.anyWeekday},
	} {
		if *f.set, *f.any, err = f.parse(fields[i]); err != nil {
			return Spec{}, fmt.Errorf("%s %q: %w", f.name, fields[i], err)
		}
	}
	const everyHour = 1<<24 - 1
	s.isElapsed = s.hours == everyHour || strings.ContainsRune("*?", rune(fields[1][0]))
	if _, ok := s.nextLocal(0); !ok {
		return Spec{}, errors.New("never comes: no month has such a day")
	}
	return s, nil
}

func parseEvery(text string) (Spec, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return Spec{}, fmt.Errorf("@every %q: not a duration such as 90s or 1h30m", text)
	}
	const longest = 10 * 365 * 24 * time.Hour
	if d < time.Second || d > longest {
		return Spec{}, fmt.Errorf("@every %v: between 1s and %v", d, longest)
	}
	if d%time.Microsecond != 0 {
		return Spec{}, fmt.Errorf("@every %v: whole microseconds only", d)
	}
	return Spec{every: d}, nil
}

// parse reads a list of values, ranges and steps. unrestricted reports whether a part of the list
// is a "*" without a step.
func (f field) parse(list string) (set uint64, unrestricted bool, err error) {
	for part := range strings.SplitSeq(list, ",") {
		low, high, step, err := f.parseRange(part)
		if err != nil {
			return 0, false, err
		}
		if (part[0] == '*' || part[0] == '?') && step == 1 {
			unrestricted = true
		}
		for n := low; n <= high; n += step {
			set |= 1 << n
		}
	}
	if f.name == weekdayField.name && has(set, 7) {
		set = set&^(1<<7) | 1
	}
	return set, unrestricted, nil
}

// parseRange reads "*", "a" or "a-b", and a step behind it. "a/n" means from a to the end. A step
// longer than the field is an error: "*/90" as minutes would be each hour, not each 90 minutes.
func (f field) parseRange(part string) (low, high, step int, err error) {
	values, stepText, hasStep := strings.Cut(part, "/")
	step = 1
	if hasStep {
		if step, err = parseNumber(stepText); err != nil {
			return 0, 0, 0, err
		}
		if step == 0 {
			return 0, 0, 0, errors.New("a step of 0")
		}
		if n := f.high - f.low + 1; step > n {
			return 0, 0, 0, fmt.Errorf("a step of %d: at most %d, for values between %d and %d", step, n, f.low, f.high)
		}
	}
	if values == "*" || values == "?" {
		return f.low, f.high, step, nil
	}
	lowText, highText, isRange := strings.Cut(values, "-")
	if low, err = f.parseValue(lowText); err != nil {
		return 0, 0, 0, err
	}
	switch {
	case isRange:
		if high, err = f.parseValue(highText); err != nil {
			return 0, 0, 0, err
		}
	case hasStep:
		high = max(low, f.high)
	default:
		high = low
	}
	if low > high {
		return 0, 0, 0, fmt.Errorf("%s: a range from high to low", values)
	}
	return low, high, step, nil
}

// parseValue reads a number or a name. Sunday may be 7.
func (f field) parseValue(text string) (int, error) {
	if i := strings.Index(f.names, strings.ToLower(text)); len(text) == 3 && i >= 0 && i%3 == 0 {
		return f.low + i/3, nil
	}
	n, err := parseNumber(text)
	if err != nil {
		return 0, err
	}
	high := f.high
	if f.name == weekdayField.name {
		high = 7
	}
	if n < f.low || n > high {
		return 0, fmt.Errorf("%d: between %d and %d", n, f.low, high)
	}
	return n, nil
}

func parseNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return int(n), nil
}
