package sqlkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/schedules"
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

// State returns the state of a row. The error names the schedule: its job cannot be read. The state
// then has a job without a kind.
func (r ScheduleRow) State() (*schedules.State, error) {
	s := &schedules.State{Digest: r.Digest, Deleted: r.Deleted, ScheduleRecord: queue.ScheduleRecord{
		Schedule: queue.Schedule{
			Name: r.Name, Spec: r.Spec, Zone: r.Zone, Job: new(queue.Job), Missed: queue.Missed(r.Missed), Grace: Duration(r.Grace),
			Overlap: r.Overlap, Paused: r.Paused,
		},
		Next: fromMicros(r.NextAt), LastTick: fromMicros(r.LastTick), LastJob: r.LastJob, Skipped: r.Skipped, Release: r.Release,
		Declared: r.Digest != "", Edited: r.Edited, Version: r.Version, UpdatedAt: fromMicros(r.UpdatedAt),
	}}
	if err := json.Unmarshal(r.Job, s.Job); err != nil {
		s.Job = new(queue.Job)
		return s, fmt.Errorf("schedule %q: its job: %w", r.Name, err)
	}
	return s, nil
}

// FireRow returns the jobs of a row whose tick has come, and the tick that follows.
func (r ScheduleRow) FireRow(at time.Time, maxPayload int) (s *schedules.State, jobs []*queue.Job, next time.Time, err error) {
	if s, err = r.State(); err != nil {
		return nil, nil, next, err
	}
	if jobs, next, err = s.Fire(s.Next, at); err != nil {
		return nil, nil, next, err
	}
	for _, j := range jobs {
		if err := j.Check(maxPayload); err != nil {
			return nil, nil, next, fmt.Errorf("schedule %q: %w", r.Name, err)
		}
	}
	return s, jobs, next, nil
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
