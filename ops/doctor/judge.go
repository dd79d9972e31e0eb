package doctor

import (
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// judgeRetention compares the retention with for how long the oldest ended jobs have been kept; 0
// means that there is none.
func judgeRetention(keeps queue.Retention, completed, dead time.Duration) finding {
	worst := finding{value: "no ended job is older than its retention"}
	for _, l := range []struct {
		what      string
		age, keep time.Duration
	}{{"completed", completed, keeps.Completed}, {"dead or cancelled", dead, keeps.Dead}} {
		keep := max(l.keep, time.Hour)
		level := words.LevelOf(l.age/2, keep/4*3, keep/2*3) // halves, because 3 × keep may overflow
		if level != ops.OK && worst.level != ops.Fail {
			worst = finding{level, fmt.Sprintf("a %s job ended %v ago, the retention is %v", l.what, words.Short(l.age), plain.Duration(l.keep)),
				"no worker prunes: see the check fleet. Or the workers have a longer Retention than this program"}
		}
	}
	return worst
}

// judgeClock judges how far a server's clock is ahead of the local one, as an answer said that took
// so long.
func judgeClock(off, trip time.Duration) finding {
	f := finding{value: fmt.Sprintf("the server is %v ahead of this host, ± %v", words.Short(off), words.Short(trip/2)),
		advice: "synchronize both clocks (NTP). Jobs become due by the server's clock; the deadlines of handlers are by the worker's clock"}
	if off < 0 {
		f.value = fmt.Sprintf("the server is %v behind this host, ± %v", words.Short(-off), words.Short(trip/2))
	}
	if beyond := off.Abs() - trip/2; beyond > 0 {
		f.level = words.LevelOf(beyond, time.Second, 30*time.Second)
	}
	return f
}

// judgeVersion compares the newest migration that has run with the newest one that is known.
func judgeVersion(found, known int, advice string) finding {
	f := finding{value: fmt.Sprintf("migration %d of %d", found, known)}
	switch {
	case found < known:
		f.level, f.advice = ops.Fail, advice
	case found > known:
		f.level, f.advice = ops.Warn, "a newer program has migrated it: update this program"
	}
	return f
}
