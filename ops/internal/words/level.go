package words

import (
	"time"

	"github.com/errandhq/errand/ops"
)

// LevelOf returns [ops.Warn] from warn on, and [ops.Fail] from fail on.
func LevelOf[T int | int64 | float64 | time.Duration](value, warn, fail T) ops.Level {
	switch {
	case value >= fail:
		return ops.Fail
	case value >= warn:
		return ops.Warn
	}
	return ops.OK
}
