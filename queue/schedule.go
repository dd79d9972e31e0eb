package queue

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/queue/cron"
)

// Schedule enqueues a job again and again, at the times of a cron expression. A [driver.Scheduler]
// keeps schedules in its database, and each [engine.Worker] of that database fires them.
// [Kind.Schedule] makes one. Name, Spec and Job are required.
//
// A tick is one time of the schedule. Each tick is fired once, by one of the workers: it enqueues
// one job, or none if it was missed or if a live job has the Key.
type Schedule struct {
	// Name is unique in the database: 1 to 200 printable ASCII bytes.
	Name string `json:"name"`
	// Spec says when: five fields such as "0 9 * * 1-5", or "@daily", or "@every 90s". Package
	// [cron] has the syntax, and what happens when clocks change.
	Spec string `json:"spec"`
	// Zone is the time zone of Spec, such as "Europe/Berlin". "" means UTC. Every machine that runs
	// workers needs the zone: a system without a time zone database needs a program that imports
	// time/tzdata. Zones that are not the same on every machine are an error: Local, localtime,
	// posixrules, Factory, and all in right/ and posix/.
	Zone string `json:"zone,omitempty"`
	// Job is what a tick enqueues, with the headers [ScheduleHeader] and [TickHeader] besides. If it
	// has no Key, the Key is "cron:" and the name: a tick enqueues nothing while the job of an
	// earlier tick is live. Its ScheduledAt must be zero.
	Job *Job `json:"job"`
	// Missed says what happens to the ticks of a time in which no worker ran. "" means
	// [MissedLast].
	Missed MissedPolicy `json:"missed,omitempty"`
	// Grace is how late a tick may be fired. 0 means a minute for [MissedSkip], and no limit
	// otherwise. Below a second is an error: ticks would be dropped that no worker has missed.
	Grace time.Duration `json:"grace_ns,omitempty"`
	// Overlap lets a tick enqueue its job while the job of an earlier tick is live: the default Key
	// then ends with the time of the tick. It is also so with [MissedAll].
	Overlap bool `json:"overlap,omitempty"`
	// Paused says that the schedule has no ticks.
	Paused bool `json:"paused,omitempty"`
}

// MissedPolicy is what happens to ticks that no worker has fired in time.
type MissedPolicy string

const (
	MissedLast MissedPolicy = "last" // the last of them is fired, so one job makes up for all
	MissedSkip MissedPolicy = "skip" // the last of them is fired if it is less than Grace old
	MissedAll  MissedPolicy = "all"  // each of them is fired, the last 100 at most
)

const (
	// ScheduleHeader is the header of a schedule's job that has the schedule's name.
	ScheduleHeader = "errand-schedule"
	// TickHeader is the header of a schedule's job that has the time of its tick, as RFC 3339 in UTC.
	TickHeader = "errand-tick"

	keyPrefix       = "cron:"
	mostMissed      = 100
	skipGrace       = time.Minute
	leastGrace      = time.Second
	maxSpec         = 1000
	tickFormat      = time.RFC3339Nano
	smallClockSteps = time.Hour
)

// TickOf returns the schedule and the tick that job was enqueued for. ok is false for a job that
// was not enqueued by a schedule.
func TickOf(job *Job) (schedule string, tick time.Time, ok bool) {
	name := job.Headers[ScheduleHeader]
	tick, err := time.Parse(tickFormat, job.Headers[TickHeader])
	if name == "" || err != nil {
		return "", time.Time{}, false
	}
	return name, tick, true
}

// ScheduleRecord is a schedule as [driver.Scheduler].Schedules returns it. Times are the backend's.
type ScheduleRecord struct {
	Schedule
	// Next is the next tick. Zero if the schedule is paused.
	Next time.Time `json:"next,omitzero"`
	// LastTick is the last tick that was fired. Zero means none.
	LastTick time.Time `json:"last_tick,omitzero"`
	// LastJob is the ID of the job of the last tick. If that tick enqueued nothing, it is the live
	// job that has the Key.
	LastJob int64 `json:"last_job,omitempty"`
	// Skipped is how many ticks have enqueued nothing because a live job had the Key.
	Skipped int64 `json:"skipped,omitempty"`
	// Release is the highest [Declaration].Release that has declared the schedule.
	Release int64 `json:"release,omitempty"`
	// Declared reports whether the program's code has declared the schedule.
	Declared bool `json:"declared,omitempty"`
	// Edited reports whether a person has set or paused the schedule since it was last declared.
	Edited bool `json:"edited,omitempty"`
	// Version counts the changes of the schedule. Ticks do not count.
	Version int64 `json:"version"`
	// UpdatedAt is when Version last changed.
	UpdatedAt time.Time `json:"updated_at"`
}

// Declaration is the schedules that a program's code declares at its start.
type Declaration struct {
	Schedules []Schedule
	// Release orders the releases of the program: higher is newer. 0 means the time of the commit
	// that the program was built from, if go build has recorded it. If it has not, 0 is the oldest
	// release. Once releases have numbers, do not begin again with lower ones.
	Release int64
}

// Check returns an [*InvalidError] that names the first bad field and its schedule. Two schedules
// with one name are an error.
func (d Declaration) Check(maxPayload int) error {
	if d.Release < 0 {
		return invalid("Declaration.Release", "%d: at least 0", d.Release)
	}
	seen := make(map[string]bool, len(d.Schedules))
	for _, s := range d.Schedules {
		if err := s.Check(maxPayload); err != nil {
			return err
		}
		if seen[s.Name] {
			return invalid("Schedule.Name", "%q: twice in one call", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// Order returns Release, or the time of the program's commit in seconds since 1970 if it is 0.
func (d Declaration) Order() int64 { return cmp.Or(d.Release, commitTime()) }

// commitTime returns the time that go build has recorded, or 0.
var commitTime = sync.OnceValue(func() int64 {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return 0
	}
	for _, s := range info.Settings {
		if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
			return at.Unix()
		}
	}
	return 0
})

// Check returns an [*InvalidError] for the first bad field. maxPayload is the longest payload in
// bytes; 0 means [DefaultMaxPayload].
func (s Schedule) Check(maxPayload int) error {
	if err := checkName("Schedule.Name", s.Name); err != nil {
		return err
	}
	if len(s.Spec) > maxSpec {
		return invalid("Schedule.Spec", "of %q: %d bytes: at most %d", s.Name, len(s.Spec), maxSpec)
	}
	if _, err := s.parse(); err != nil {
		return err
	}
	if s.Job == nil {
		return invalid("Schedule.Job", "of %q: nil", s.Name)
	}
	if !s.Job.ScheduledAt.IsZero() {
		return invalid("Schedule.Job", "of %q: has ScheduledAt: Spec says when", s.Name)
	}
	if err := s.jobAt(time.Unix(0, 0)).Check(maxPayload); err != nil {
		return &InvalidError{Field: "Schedule.Job", Problem: "of \"" + s.Name + "\": " + err.Error(), Err: err}
	}
	switch s.Missed {
	case "", MissedLast, MissedSkip, MissedAll:
	default:
		return invalid("Schedule.Missed", "of %q: %q: last, skip or all", s.Name, s.Missed)
	}
	if s.Grace < 0 || s.Grace > 0 && s.Grace < leastGrace {
		return invalid("Schedule.Grace", "of %q: %v: at least %v, or 0 for the default", s.Name, s.Grace, leastGrace)
	}
	return nil
}

// times are the times of a schedule: a Spec in its zone.
type times struct {
	spec cron.Spec
	zone *time.Location
}

func (s Schedule) parse() (t times, err error) {
	if t.spec, err = cron.Parse(s.Spec); err != nil {
		return t, &InvalidError{Field: "Schedule.Spec", Problem: "of \"" + s.Name + "\": " + err.Error(), Err: err}
	}
	if t.zone, err = zoneOf(s.Zone); err != nil {
		return t, &InvalidError{Field: "Schedule.Zone", Problem: "of \"" + s.Name + "\": " + err.Error(), Err: err}
	}
	return t, nil
}

// knownZone is a zone that each time zone database has.
const knownZone = "Europe/Berlin"

// zones holds the time zones that were used, by name: time.LoadLocation reads a file each time.
var zones sync.Map

func zoneOf(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if isHostZone(name) {
		return nil, fmt.Errorf("%s is not the same zone on every machine: use a name such as %s", name, knownZone)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		if _, missing := time.LoadLocation(knownZone); missing != nil {
			return nil, fmt.Errorf("%w: this machine has no time zone database: import time/tzdata", err)
		}
		return nil, fmt.Errorf("%w: look how it is spelt, such as %s; a new zone needs newer time zone data", err, knownZone)
	}
	zones.Store(name, zone)
	return zone, nil
}

// isHostZone reports whether a zone may differ between machines, or be missing on some: it names
// the machine's own zone, none at all, or one of the folders that Go's time zone data leaves out.
// Zones in right/ count leap seconds. Some file systems do not tell cases apart.
func isHostZone(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "local", "localtime", "posixrules", "factory":
		return true
	}
	return name != "" && path.Clean(name) != name || strings.HasPrefix(name, "right/") || strings.HasPrefix(name, "posix/")
}

// Every returns the interval of a Spec such as "@every 90s", and 0 for any other.
func (s Schedule) Every() time.Duration {
	spec, err := cron.Parse(s.Spec)
	if err != nil {
		return 0
	}
	return spec.Every()
}

// NextTick returns the first tick after now, whether or not the schedule is paused. If last, the
// last tick that was fired, is a little later than now because the clock was set back, it returns
// the first tick after last, but for "@every", which counts elapsed time. The error is an
// [*InvalidError].
func (s Schedule) NextTick(now, last time.Time) (time.Time, error) {
	t, err := s.parse()
	if err != nil {
		return time.Time{}, err
	}
	if last.After(now) && last.Sub(now) < smallClockSteps && t.spec.Every() == 0 {
		now = last
	}
	return t.spec.Next(now.In(t.zone)), nil
}

// Fire returns the jobs to enqueue at the time now for a schedule whose next tick is first, in the
// order of their ticks, and the tick that follows. There are no jobs if first is after now, or if
// the ticks were missed and Missed and Grace say that they are not made up for. The jobs share
// their Payload with s. If first is from a process with other time zone data, it takes the place of
// the time that follows it: see [Schedule.CheckTick]. The error is an [*InvalidError].
func (s Schedule) Fire(first, now time.Time) (jobs []*Job, next time.Time, err error) {
	t, err := s.parse()
	if err != nil {
		return nil, time.Time{}, err
	}
	most, grace := 1, s.Grace
	switch {
	case s.Missed == MissedAll:
		most = mostMissed
	case s.Missed == MissedSkip && grace == 0:
		grace = skipGrace
	}
	due, next := t.due(first, now, most)
	for _, tick := range due {
		if grace == 0 || now.Sub(tick) <= grace {
			jobs = append(jobs, s.jobAt(tick))
		}
	}
	return jobs, next, nil
}

// jobAt returns the job of a tick.
func (s Schedule) jobAt(tick time.Time) *Job {
	job := s.bareJob()
	at := tick.UTC().Format(tickFormat)
	job.Headers = make(map[string]string, len(s.Job.Headers)+2)
	maps.Copy(job.Headers, s.Job.Headers)
	job.Headers[ScheduleHeader], job.Headers[TickHeader] = s.Name, at
	if job.Key == "" {
		job.Key = keyPrefix + s.Name
		if s.Overlap || s.Missed == MissedAll {
			job.Key += "@" + at
		}
	}
	return job
}

// template returns a copy of Job, without what Enqueue and Claim fill in.
func (s Schedule) template() *Job {
	job := s.bareJob()
	job.Payload, job.Headers = bytes.Clone(job.Payload), maps.Clone(job.Headers)
	return job
}

// bareJob returns Job without what Enqueue and Claim fill in. It shares the payload and the
// headers.
func (s Schedule) bareJob() *Job {
	job := *s.Job
	job.ID, job.Duplicate, job.Replaced = 0, false, false
	job.Attempt, job.Fence, job.Worker, job.CreatedAt, job.LastError, job.Unreadable = 0, 0, "", time.Time{}, "", nil
	return &job
}

// Clone returns a copy of the schedule, with a Job of its own that has only the fields which an
// enqueuer sets.
func (s Schedule) Clone() Schedule {
	s.Job = s.template()
	return s
}

// Digest returns a text that is equal for equal schedules only. A backend stores it with a declared
// schedule, to learn whether the code has changed.
func (s Schedule) Digest() string {
	s.Job = s.template()
	text, err := json.Marshal(s)
	if err != nil {
		return "" // Check has refused the schedule
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
