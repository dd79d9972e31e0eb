package driver

import "slices"

// IsForeignTick reports whether an error of FireSchedules says no more than that ticks of other
// time zone data were fired (see [queue.Schedule.CheckTick]). That is a warning for the operator:
// nothing has failed.
func IsForeignTick(err error) bool { return isForeignTick(err) }

// isForeignTick looks at every error within err: each has to be a foreign tick.
func isForeignTick(err any) bool {
	switch e := err.(type) {
	case interface{ IsForeignTick() bool }:
		return e.IsForeignTick()
	case interface{ Unwrap() error }:
		return isForeignTick(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(e error) bool { return !isForeignTick(e) })
	}
	return false
}
