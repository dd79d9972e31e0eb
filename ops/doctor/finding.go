package doctor

import (
	"context"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// Check is what [Examine] has found out about one thing.
type Check struct {
	// ID is the name of the check, such as "horizon". It will not change. docs/doctor.md lists them.
	ID string `json:"id"`
	// Level is [ops.Skipped] if a right is missing, if the check does not apply, or if it took too
	// long.
	Level ops.Level `json:"level"`
	// Value is what the check has found, in one line.
	Value string `json:"value"`
	// Advice is what to do about it; "" if Level is [ops.OK].
	Advice string `json:"advice,omitempty"`
	// SQL is the statements that the check has run, "" if none.
	SQL string `json:"sql,omitempty"`
	// Took is how long the check took.
	Took time.Duration `json:"took_ns"`
}

// Bounds are how long something may last before a check warns, and before it fails.
type Bounds struct {
	Warn time.Duration
	Fail time.Duration
}

// Options are those of [Examine]. The zero value is what docs/doctor.md says.
type Options struct {
	// Backlog bounds how long a due job may have waited. A zero field means 1 or 15 minutes.
	Backlog Bounds
	// Horizon bounds how long a transaction may keep VACUUM from removing dead rows. A zero field
	// means 1 or 10 minutes.
	Horizon Bounds
	// Program is how the command lines of advice begin: the program, with flags that name the
	// database. It is text for a shell. "" means errand.
	Program string
	// Tool says that the program is a tool, and no worker's. Where a pooler is between the tool and
	// the server, the check listen is then skipped: it would tell nothing about workers.
	Tool bool
}

func (o Options) withDefaults() Options {
	o.Backlog = o.Backlog.or(time.Minute, 15*time.Minute)
	o.Horizon = o.Horizon.or(time.Minute, 10*time.Minute)
	return o
}

func (b Bounds) or(warn, fail time.Duration) Bounds {
	if b.Warn == 0 {
		b.Warn = warn
	}
	if b.Fail == 0 {
		b.Fail = fail
	}
	return b
}

// level returns the level of something that has lasted for d.
func (b Bounds) level(d time.Duration) ops.Level { return words.LevelOf(d, b.Warn, b.Fail) }

// doctor is one call of Examine.
type doctor struct {
	*reader.Reader
	words.Program
	options Options
	served  *served // nil unless they are in Redis
	isCut   bool    // the last check has lost the connection
	pooled  bool    // the check pooler has found one
	// hasLocks is whether a transaction has locked a whole table of errand's, or waits for that.
	hasLocks bool
	// held is what keeps reports of workers waiting, if knowsHeld: see workers.
	held      *reader.HeldReports
	knowsHeld bool
}

// backend names the database.
func (d *doctor) backend() string {
	switch {
	case d.File != nil:
		return d.File.Name
	case d.served != nil:
		return d.served.name()
	}
	return d.Server.Name
}

// check is something that Examine looks at.
type check struct {
	id string
	// look returns the level, the value and the advice.
	look func(ctx context.Context, d *doctor) (finding, error)
}

// finding is what a check has found. A zero level is OK.
type finding struct {
	level         ops.Level
	value, advice string
}
