package seed

import (
	"slices"
	"testing"
	"time"
)

const least, most = 10 * time.Millisecond, 50 * time.Millisecond

func strikes(seed uint64, purpose ...any) []Strike {
	return Strikes(Source(seed, purpose...), 200, 4, least, most)
}

func TestSameSeedSamePlan(t *testing.T) {
	if !slices.Equal(strikes(7, "sigkill", "victims"), strikes(7, "sigkill", "victims")) {
		t.Error("the same seed and purpose: got different plans")
	}
	for name, other := range map[string][]Strike{
		"another seed":                    strikes(8, "sigkill", "victims"),
		"another purpose":                 strikes(7, "sigkill", "pauses"),
		"the same words, cut differently": strikes(7, "sigkillvictims"),
	} {
		if slices.Equal(strikes(7, "sigkill", "victims"), other) {
			t.Errorf("%s: got the same plan", name)
		}
	}
}

// TestPlanOfAKnownSeed: a published command strikes the same victims in the next version.
func TestPlanOfAKnownSeed(t *testing.T) {
	var got []int
	for _, s := range strikes(1, "known")[:12] {
		got = append(got, s.Victim)
	}
	if want := []int{2, 1, 0, 0, 3, 3, 3, 2, 1, 2, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("victims: got %v, want %v", got, want)
	}
	if got, want := HandlerTime(1, 42, least, most), 44_889_300*time.Nanosecond; got != want {
		t.Errorf("handler time of job 42: got %v, want %v", got, want)
	}
}

func TestStrikesKeepToTheirBounds(t *testing.T) {
	hit := make(map[int]int)
	shortest, longest := most, least
	for _, s := range strikes(3) {
		hit[s.Victim]++
		shortest, longest = min(shortest, s.After), max(longest, s.After)
	}
	if len(hit) != 4 || hit[0]+hit[1]+hit[2]+hit[3] != 200 {
		t.Errorf("victims: got %v, want each of 0 to 3", hit)
	}
	if shortest < least || longest > most || longest-shortest < (most-least)/2 {
		t.Errorf("pauses: got %v to %v, want them spread from %v to %v", shortest, longest, least, most)
	}
}

func TestBetweenOfOneValue(t *testing.T) {
	if got := Between(Source(1), time.Second, time.Second); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
}
