// Package report writes tables of results as text, Markdown, JSON and pictures.
package report

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/result"
)

// Header says what was run, where and how.
type Header struct {
	Command string // the command that repeats the run
	Machine string
	Servers []string // a line each
	Systems []string // a line each: name and settings
	Rounds  int
	Scale   float64
	Begun   time.Time
	Took    time.Duration
	Load    string // of the machine before the run
}

// lines returns the lines of the header.
func (h Header) lines() []string {
	lines := []string{
		fmt.Sprintf("%s, %s on %s", h.Begun.UTC().Format("2006-01-02 15:04 MST"), h.Command, h.Machine),
	}
	if h.Load != "" {
		lines[0] += ", load before the run " + h.Load
	}
	lines = append(lines, h.Servers...)
	lines = append(lines, fmt.Sprintf("rounds, in turns: %d; scale %v; took %v; medians [least … most]; to errand: the median of each round's ratio",
		h.Rounds, h.Scale, h.Took.Round(time.Second)))
	return append(lines, h.Systems...)
}

// heading returns the heading of a table. It names the rounds if they are fewer than the header's.
func heading(t *result.Table) string {
	text := t.Scenario + ": " + t.Title
	switch {
	case t.Rounds == 1:
		text += " (1 round)"
	case t.Rounds > 1:
		text += fmt.Sprintf(" (%d rounds)", t.Rounds)
	}
	return text
}

// Load returns the machine's load average of the last minute, or "".
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
