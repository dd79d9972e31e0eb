package driver

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Scheduler is a backend that keeps [queue.Schedule]s. Changes go through db: the caller's
// transaction, whose commit makes them take effect, or nil for the backend's own handle. Workers
// notice a change within seconds. Its methods may be called concurrently.
type Scheduler interface {
	// SetSchedules adds schedules, and replaces schedules with the same name. Their next ticks follow
	// now: a change fires nothing, and no tick twice. Bad input (see [CheckSchedules]) is an
	// [*queue.InvalidError], and nothing is changed.
	SetSchedules(ctx context.Context, db queue.DB, schedules ...queue.Schedule) error
	// DeleteSchedules deletes the named schedules and returns how many there were. Jobs that they
	// have enqueued stay. A schedule that code has declared stays deleted until the code changes.
	// A name that no schedule can have is an [*queue.InvalidError].
	DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error)
	// Schedules returns all schedules, ordered by name. Of a Job that the backend's role may not read
	// it returns the Kind and the Queue.
	Schedules(ctx context.Context) ([]queue.ScheduleRecord, error)

	// DeclareSchedules writes the schedules of a program's code. A program calls it at each start.
	// It adds a schedule that there is not, and replaces one whose text in the code has changed
	// since it was last declared. What a person has edited, paused or deleted meanwhile stays if
	// the text has not changed. If the text has changed, a person's pause stays nevertheless. A
	// release leaves alone what a higher Release has declared. It returns how many schedules it has
	// changed. Otherwise it is like SetSchedules.
	DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error)
	// FireSchedules enqueues the jobs of the schedules whose next tick has come. It may leave some of
	// the schedules, or some of the missed ticks of one, to the next call, and then returns a next of
	// 0. It returns how many it has fired, and how long until the next tick, or less than 0 if the
	// backend knows of none. A worker calls it at that time, after each call of Sleep, and every few
	// seconds. Sleep can look for schedules, too, so that FireSchedules can answer from memory. A
	// schedule that cannot be fired does not keep other schedules from being fired. The error names
	// it. It also names a schedule that was fired where [queue.Schedule.CheckTick] returns an error.
	FireSchedules(ctx context.Context) (fired int, next time.Duration, err error)
}
