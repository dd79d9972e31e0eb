package data

import "testing"

// TestOrdersAreCovered: a short run has each forced order with each ending.
func TestOrdersAreCovered(t *testing.T) {
	all := make(map[string]bool)
	for i := range shortTrials {
		o, e := combination(i)
		all[o.name+e.String()] = true
	}
	if want := len(orders) * len(endings); len(all) != want {
		t.Errorf("got %d combinations, want %d", len(all), want)
	}
}
