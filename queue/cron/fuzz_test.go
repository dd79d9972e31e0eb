package cron_test

import (
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/errandhq/errand/queue/cron"
)

// FuzzAgainstRobfig compares the times with those of github.com/robfig/cron/v3, in UTC: there
// clocks do not change. What only one of the two can read is one of a few kinds. Ours takes
// any white space between words and around them, so robfig reads the words with one space.
func FuzzAgainstRobfig(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/15 9-17 * * 1-5", "0 0 1,15 * 3", "30 4 */2 jan-mar sun", "5/20 ? ? * ?", "@every 90s",
		"@every 1h30m", "@weekly", "0 0 29 2 *", "0 0 31 2 *", "1-5/2,7 0-23/6 31 4-6 0", "0 12 * * 7", "60 * * * *",
		" 5  4 * *\t* ", "@every  1s", "*/90 * * * *", "0 */25 * * *",
	} {
		f.Add(text, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, from int64) {
		ours, err := cron.Parse(text)
		theirs, theirErr := robfig.ParseStandard(strings.Join(strings.Fields(text), " "))
		switch {
		case err != nil && theirErr == nil:
			if !isRefused(text, err) {
				t.Fatalf("Parse(%q): %v, but robfig can read it", text, err)
			}
			return
		case err == nil && theirErr != nil:
			if !strings.Contains(text, "7") {
				t.Fatalf("Parse(%q): no error, but robfig has %v", text, theirErr)
			}
			return
		case err != nil:
			return
		}
		at := time.Unix(from%4_000_000_000, 0).UTC()
		for range 5 {
			got, want := ours.Next(at), theirs.Next(at)
			if got.Sub(at)%time.Second != 0 {
				return // robfig knows whole seconds only
			}
			if want.IsZero() && got.Sub(at) > 5*365*24*time.Hour {
				return // robfig searches five years
			}
			if !got.Equal(want) {
				t.Fatalf("%q after %v: got %v, robfig %v", text, at, got, want)
			}
			at = got
		}
	})
}

// isRefused reports whether we refuse on purpose what robfig reads: a zone, an expression that
// never matches, intervals below a second, steps longer than the field, signs, and lists and ranges
// with a part that is ignored.
func isRefused(text string, err error) bool {
	for _, part := range []string{"set Zone", "never comes", "between 1s and", "microseconds", "for values between"} {
		if strings.Contains(err.Error(), part) {
			return true
		}
	}
	return strings.ContainsAny(text, "+,") || strings.Contains(text, "*-") || strings.Contains(text, "?-") || strings.Contains(text, "@every") ||
		strings.Contains(err.Error(), "not a number")
}
