package web

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// number returns n with separators: 1,234,567.
func number[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// duration returns d in its largest unit, or its two largest ones for long times: 850 ms, 12 s,
// 3 min, 2 h 5 min, 4 d 3 h.
func duration(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, day, "d", time.Hour, "h")
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 && d/large < 10 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// moment is a time as pages show it.
type moment struct {
	ISO, Exact, Text string // all "" if there is no such time
}

// lastYear is the last year that a due time can have. Later times are those of jobs that SQL has
// made due at infinity.
const lastYear = 9998

// momentOf returns how far t is from now. Whole seconds are enough: a page that changes less often
// is sent less often.
func momentOf(now, t time.Time) moment {
	switch {
	case t.IsZero():
		return moment{}
	case t.Year() > lastYear:
		return moment{ISO: "9999-12-31T23:59:59Z", Exact: "infinity", Text: "never"}
	}
	m := moment{ISO: t.UTC().Format(time.RFC3339Nano), Exact: t.UTC().Format("2006-01-02 15:04:05.000 UTC")}
	switch d := now.Sub(t); {
	case d.Abs() < time.Second:
		m.Text = "now"
	case d > 0:
		m.Text = duration(d.Truncate(time.Second)) + " ago"
	default:
		m.Text = "in " + duration((-d).Truncate(time.Second))
	}
	return m
}

// plain returns a stored text with its control characters, and the characters that change the
// direction of text, as escapes. Line breaks and tabs stay.
func plain(text string) string {
	isOdd := func(r rune) bool {
		switch {
		case r == '\n' || r == '\t':
			return false
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029', r == '\ufeff':
			return true
		}
		return false
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.IndexFunc(text, isOdd) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isOdd(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cut returns the first n characters of text, with an ellipsis if there are more.
func cut(text string, n int) string {
	count := 0
	for i := range text {
		if count == n {
			return text[:i] + "…"
		}
		count++
	}
	return text
}

// segment returns a name as one segment of a path. Names that browsers, proxies or ServeMux might
// change are encoded: those with a slash, and "." and "..".
func segment(name string) string {
	if name == "." || name == ".." || strings.HasPrefix(name, "~") || strings.ContainsAny(name, `/\%;?#`) {
		return "~" + base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return url.PathEscape(name)
}

// nameIn returns the name that segment was called with. It is an error if there is none.
func nameIn(segment string) (string, error) {
	if encoded, ok := strings.CutPrefix(segment, "~"); ok {
		name, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil {
			return "", errNotFound
		}
		return string(name), nil
	}
	return segment, nil
}
