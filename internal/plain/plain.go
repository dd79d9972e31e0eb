// Package plain has what texts for people need: it writes durations, stored texts and words of
// command lines, and finds the name that somebody has misspelt. It serves ops, queuetest and
// cmd/errand.
package plain

import (
	"strings"
	"time"
)

// Duration returns d as [time.Duration] writes it, without the zeros at its end: 48h instead of
// 48h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
