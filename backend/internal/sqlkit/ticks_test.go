package sqlkit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDenied: a process that may not fire says so, also while others fire what is due, until it has
// fired something itself.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ticks Ticks
		denial := errors.New("permission denied")
		isDue, mayFire, next := true, false, time.Second
		call := func() error {
			t.Helper()
			look := func(bool) (time.Duration, error) {
				if isDue {
					return 0, nil
				}
				return next, nil
			}
			_, _, err := ticks.Fire(nil, look, func() (int, bool, error) {
				if !mayFire {
					ticks.Deny(time.Minute, denial)
					return 0, false, denial
				}
				isDue = false
				return 1, false, nil
			})
			return err
		}
		want := func(when string, err error) {
			t.Helper()
			if got := call(); !errors.Is(got, err) {
				t.Errorf("%s: error %v, want %v", when, got, err)
			}
		}
		want("it has just tried", denial)
		want("it does not try", denial)
		isDue = false
		time.Sleep(2 * time.Minute)
		want("another process has fired", denial)
		isDue = true
		want("it has tried again", denial)
		mayFire = true
		want("it does not try, though it may now", denial)
		time.Sleep(2 * time.Minute)
		want("it has fired", nil)
		want("nothing is due", nil)
		isDue, mayFire = true, false
		time.Sleep(time.Second)
		want("it is denied again", denial)
		isDue, next = false, -1
		time.Sleep(2 * time.Minute)
		want("there are no schedules", nil)
	})
}
