package result

import (
	"fmt"
	"strconv"
)

// Target is a goal of the project: the value of Of is at least, or at most, Factor times the value
// of Over. If Over is nil, it is Factor itself.
type Target struct {
	Of     Place
	Over   *Place
	Metric Metric
	Most   bool // at most; otherwise at least
	Factor float64
}

// Verdict is how a target did in a run.
type Verdict struct {
	Value float64 // the ratio, or the figure
	Met   bool
}

// Judge returns the verdict. ok is false if a value that it needs was not measured.
func (t *Table) Judge(g Target) (v Verdict, ok bool) {
	of := t.Row(g.Of, g.Metric)
	if of == nil {
		return v, false
	}
	if g.Over == nil {
		v.Value = of.Median()
	} else {
		over := t.Row(*g.Over, g.Metric)
		if over == nil {
			return v, false
		}
		if v.Value, ok = ratioOf(of, over); !ok {
			return v, false
		}
	}
	v.Met = v.Value >= g.Factor
	if g.Most {
		v.Met = v.Value <= g.Factor
	}
	return v, true
}

// String returns the target in words.
func (g Target) String() string {
	sign := "≥"
	if g.Most {
		sign = "≤"
	}
	if g.Over == nil {
		return fmt.Sprintf("%s %s %s %s %s", g.Of.String(), g.Metric.Name, sign, number(g.Factor), g.Metric.Unit)
	}
	over := g.Over.System
	switch {
	case g.Over.System == g.Of.System:
		over = g.Over.Case
	case g.Over.Case != g.Of.Case:
		over = g.Over.String()
	}
	return fmt.Sprintf("%s %s %s %s × %s", g.Of.String(), g.Metric.Name, sign, number(g.Factor), over)
}

// String returns the system, and the case if there is one.
func (p Place) String() string {
	if p.Case == "" {
		return p.System
	}
	return p.System + " " + p.Case
}

// number returns f with three digits, or all digits before the point.
func number(f float64) string {
	if f >= 1000 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}
