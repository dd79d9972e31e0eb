package sqlkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/queue"
)

// ScheduleRow is a schedule as the SQL backends store it. Times and durations are in microseconds,
// times since 1970. 0 is NULL in NextAt, LastTick and LastJob, and "" in Digest.
type ScheduleRow struct {
	Name      string          `json:"name"`
	Spec      string          `json:"spec"`
	Zone      string          `json:"zone"`
	Job       json.RawMessage `json:"job"`
	Missed    string          `json:"missed"`
	Grace     int64           `json:"grace"`
	Overlap   bool            `json:"overlap"`
	Paused    bool            `json:"paused"`
	NextAt    int64           `json:"next_at"`
	LastTick  int64           `json:"last_tick"`
	LastJob   int64           `json:"last_job"`
	Skipped   int64           `json:"skipped"`
	Version   int64           `json:"version"`
	Digest    string          `json:"digest"`
	Release   int64           `json:"release"`
	Edited    bool            `json:"edited"`
	Deleted   bool            `json:"deleted"`
	UpdatedAt int64           `json:"updated_at"`
	Broken    error           `json:"-"` // why not all of the row can be read; nil if it can
}

// Targets returns where to scan the columns, in the order of the fields.
func (r *ScheduleRow) Targets() []any {
	return []any{
		&r.Name, &r.Spec, &r.Zone, (*[]byte)(&r.Job), &r.Missed, &r.Grace, &r.Overlap, &r.Paused, &r.NextAt, &r.LastTick,
		&r.LastJob, &r.Skipped, &r.Version, &r.Digest, &r.Release, &r.Edited, &r.Deleted, &r.UpdatedAt,
	}
}

// NewScheduleRow returns the row of a state.
func NewScheduleRow(s *schedules.State) (r ScheduleRow, err error) {
	var job bytes.Buffer
	enc := json.NewEncoder(&job)
	enc.SetEscapeHTML(false) // a payload stays as it is
	if err := enc.Encode(s.Job); err != nil {
		return r, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	return ScheduleRow{
		Name: s.Name, Spec: s.Spec, Zone: s.Zone, Job: bytes.TrimSpace(job.Bytes()), Missed: string(s.Missed), Grace: Microseconds(s.Grace),
		Overlap: s.Overlap, Paused: s.Paused, NextAt: micros(s.Next), LastTick: micros(s.LastTick), LastJob: s.LastJob,
		Skipped: s.Skipped, Version: s.Version, Digest: s.Digest, Release: s.Release, Edited: s.Edited, Deleted: s.Deleted,
		UpdatedAt: micros(s.UpdatedAt),
	}, nil
}

// State returns the state of a row. The error names the schedule: the row or its job cannot be
// read. The state then has what can be read, or a job without a kind.
func (r ScheduleRow) State() (*schedules.State, error) {
	s := &schedules.State{Digest: r.Digest, Deleted: r.Deleted, ScheduleRecord: queue.ScheduleRecord{
		Schedule: queue.Schedule{
			Name: r.Name, Spec: r.Spec, Zone: r.Zone, Job: new(queue.Job), Missed: queue.MissedPolicy(r.Missed), Grace: Duration(r.Grace),
			Overlap: r.Overlap, Paused: r.Paused,
		},
		Next: fromMicros(r.NextAt), LastTick: fromMicros(r.LastTick), LastJob: r.LastJob, Skipped: r.Skipped, Release: r.Release,
		Declared: r.Digest != "", Edited: r.Edited, Version: r.Version, UpdatedAt: fromMicros(r.UpdatedAt),
	}}
	err := json.Unmarshal(r.Job, s.Job)
	if err != nil {
		s.Job = new(queue.Job)
	}
	if r.Broken != nil {
		return s, fmt.Errorf("schedule %q: %w", r.Name, r.Broken)
	}
	if err != nil {
		return s, fmt.Errorf("schedule %q: its job: %w", r.Name, err)
	}
	return s, nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// ChangedSchedule is a state to be written. Was and WasNext are the version and the tick that the
// change began with: 0 if there was no schedule, or no tick. Gone says that the row is to be
// deleted.
type ChangedSchedule struct {
	ScheduleRow
	Was     int64 `json:"was"`
	WasNext int64 `json:"was_next"`
	Gone    bool  `json:"gone"`
}

// changeRounds is how often ChangeSchedules begins anew.
const changeRounds = 20

// ChangeSchedules makes a change to the named schedules. It reads them, computes their next ticks,
// and writes them. write returns the names of those that had not changed meanwhile; for the others
// ChangeSchedules begins anew. It returns how many have a new version.
func ChangeSchedules(names []string, f schedules.Change, read func(names []string) (time.Time, []ScheduleRow, error),
	write func([]ChangedSchedule) (written map[string]bool, err error),
) (n int, err error) {
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	for round := 0; len(names) > 0; round++ {
		if round == changeRounds {
			return n, fmt.Errorf("%d schedules keep changing", len(names))
		}
		at, rows, err := read(names)
		if err != nil {
			return n, err
		}
		changes, err := changesOf(names, index, rows, at, f)
		if err != nil || len(changes) == 0 {
			return n, err
		}
		written, err := write(changes)
		if err != nil {
			return n, err
		}
		names = nil
		for _, c := range changes {
			switch {
			case !written[c.Name]:
				names = append(names, c.Name)
			case c.Was != c.Version:
				n++
			}
		}
	}
	return n, nil
}

// changesOf returns what a change makes of the named schedules.
func changesOf(names []string, index map[string]int, rows []ScheduleRow, at time.Time, f schedules.Change) (changes []ChangedSchedule, err error) {
	before := make(map[string]ScheduleRow, len(rows))
	for _, r := range rows {
		before[r.Name] = r
	}
	for _, name := range names {
		var was *schedules.State
		r, ok := before[name]
		if ok {
			was, _ = r.State() // a job that cannot be read is replaced, or becomes an empty one
		}
		next := f(index[name], was, at)
		if next == nil {
			continue
		}
		row, err := NewScheduleRow(next)
		if err != nil {
			return nil, err
		}
		changes = append(changes, ChangedSchedule{ScheduleRow: row, Was: r.Version, WasNext: r.NextAt, Gone: next.IsGone()})
	}
	return changes, nil
}
