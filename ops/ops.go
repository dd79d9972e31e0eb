// Package ops holds the words that package doctor and package explain share. Function
// doctor.Examine says what is wrong with a queue, and explain.Job why a job does not run. Both only
// read, and may be called at any time, also while workers run. The command line and the dashboard
// show what they return.
//
// Both work with every backend, by its capabilities such as driver.Inspector. For a backend whose
// jobs are in tables of PostgreSQL (driver.Tabled) they also ask the server: for locks, open
// transactions, settings and rights. They take one connection of the backend's handle at a time,
// and a second one for two checks of the doctor. Each statement may take two seconds. What the
// connection's role may not read is reported as not known, with the right that is missing. Of Redis
// they judge what its servers tell (driver.Served).
package ops

// Level says how bad the thing is that a check of the doctor or a reason of explain tells.
type Level string

// The levels.
const (
	OK      Level = "ok"      // as it should be
	Warn    Level = "warn"    // look at it soon
	Fail    Level = "fail"    // jobs do not run, are not safe, or will soon not run
	Skipped Level = "skipped" // not known; the Value of the check says why
)
