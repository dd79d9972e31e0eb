package backendtest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var scheduleCases = []testCase{
	{"set, replace and delete", hasSchedules, testScheduleSet},
	{"bad input", hasSchedules, testScheduleInput},
	{"the next tick", hasSchedules, testScheduleNext},
	{"pause and resume", hasSchedules, testSchedulePause},
	{"changes in a transaction", hasSchedules | hasTx, testScheduleTx},
	{"declared by code", hasSchedules, testDeclare},
	{"declared with the same times", hasSchedules, testDeclareTick},
	{"declared after the clock was set back", hasSchedules, testDeclareSetBack},
	{"declared and edited", hasSchedules, testDeclareEdited},
	{"declared by an older release", hasSchedules, testDeclareOlder},
	{"declared by eight at once", hasSchedules, testDeclareTogether},
	{"declared in a transaction", hasSchedules | hasTx, testDeclareTx},
	{"a tick enqueues its job", hasSchedules, testFire},
	{"eight callers fire each tick once", hasSchedules | isFull, testFireTogether},
	{"callers that crash", hasSchedules | isFull, testFireCrash},
	{"missed ticks", hasSchedules, testMissed},
	{"missed days in a zone", hasSchedules, testMissedInZone},
	{"missed ticks with long payloads", hasSchedules, testMissedMany},
	{"a tick of other time zone data", hasSchedules, testFireForeign},
	{"runs do not pile up", hasSchedules, testFirePileUp},
	{"changes beside ticks", hasSchedules | isFull, testFireEdited},
	{"beside an open transaction", hasSchedules | hasTx, testFireBeside},
	{"a worker fires in time", hasSchedules | hasWakeUps | isFull, testFireWorker},
}

func scheduler(h Harness) driver.Scheduler {
	s, _ := driver.As[driver.Scheduler](h.Queue)
	return s
}

func runner(h Harness) driver.Scheduler {
	r, _ := driver.As[driver.Scheduler](h.Queue)
	return r
}

// schedule returns a schedule that enqueues a job for the queue "q" each hour, at a time that is
// half an hour away from now.
func schedule(name string) queue.Schedule {
	return queue.Schedule{Name: name, Spec: hourly(), Job: newJob()}
}

func hourly() string {
	return time.Now().UTC().Add(30*time.Minute).Format("4") + " * * * *"
}

func setSchedules(t *testing.T, h Harness, db queue.DB, schedules ...queue.Schedule) {
	t.Helper()
	if err := scheduler(h).SetSchedules(t.Context(), db, schedules...); err != nil {
		t.Fatalf("SetSchedules of %d: %v", len(schedules), err)
	}
}

// listSchedules checks that there are n schedules, and returns them.
func listSchedules(t *testing.T, h Harness, n int) []queue.ScheduleRecord {
	t.Helper()
	all, err := scheduler(h).Schedules(t.Context())
	if err != nil || len(all) != n {
		t.Fatalf("Schedules: got %d, error %v; want %d", len(all), err, n)
	}
	return all
}

func testScheduleSet(t *testing.T, h Harness) {
	full := queue.Schedule{
		Name: "b", Spec: "*/5 9-17 * * 1-5", Zone: "Europe/Berlin", Missed: queue.MissedAll, Grace: time.Minute + time.Microsecond, Overlap: true,
		Job: &queue.Job{
			Queue: "q", Kind: "k", Payload: json.RawMessage(`{"a":"<é\"\\>","b":[1,null]}`), Priority: -3, Delay: time.Second,
			MaxAttempts: 7, Key: "ключ", Headers: map[string]string{"x": "y\n"},
		},
	}
	setSchedules(t, h, nil)
	setSchedules(t, h, nil, full, queue.Schedule{Name: "a", Spec: "@daily", Job: newJob(), Paused: true})
	all := listSchedules(t, h, 2)
	got := all[1]
	var payload, want any
	_, _ = json.Unmarshal(got.Job.Payload, &payload), json.Unmarshal(full.Job.Payload, &want)
	got.Schedule = got.Clone()
	if !reflect.DeepEqual(payload, want) {
		t.Errorf("Payload of a schedule's Job: got %s, want %s", got.Job.Payload, full.Job.Payload)
	}
	got.Job.Payload = full.Job.Payload
	if !reflect.DeepEqual(got.Schedule, full) {
		t.Errorf("schedule:\n got %+v, job %+v\nwant %+v, job %+v", got.Schedule, got.Job, full, full.Job)
	}
	if got.Version != 1 || got.Declared || got.Edited || got.UpdatedAt.IsZero() || !got.LastTick.IsZero() {
		t.Errorf("record of a new schedule: got %+v", got)
	}
	if a := all[0]; a.Name != "a" || !a.Paused || !a.Next.IsZero() || a.Missed != queue.MissedLast {
		t.Errorf("a paused schedule: got %+v", a)
	}
	full.Spec, full.Missed = "@every 10m", queue.MissedSkip
	setSchedules(t, h, nil, full)
	if got := listSchedules(t, h, 2)[1]; got.Spec != full.Spec || got.Missed != full.Missed || got.Version != 2 {
		t.Errorf("a replaced schedule: got %+v", got)
	}
	if n, err := scheduler(h).DeleteSchedules(t.Context(), nil, "b", "none", "b"); n != 1 || err != nil {
		t.Errorf("DeleteSchedules of one: got %d, error %v", n, err)
	}
	if n, err := scheduler(h).DeleteSchedules(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("DeleteSchedules of none: got %d, error %v", n, err)
	}
	listSchedules(t, h, 1)
	setSchedules(t, h, nil, full)
	listSchedules(t, h, 2)
}

func testScheduleInput(t *testing.T, h Harness) {
	for field, change := range map[string]func(s *queue.Schedule){
		"Schedule.Name":   func(s *queue.Schedule) { s.Name = "" },
		"Schedule.Spec":   func(s *queue.Schedule) { s.Spec = "0 0 31 2 *" },
		"Schedule.Zone":   func(s *queue.Schedule) { s.Zone = "Mars/Phobos" },
		"Schedule.Job":    func(s *queue.Schedule) { s.Job = nil },
		"Schedule.Missed": func(s *queue.Schedule) { s.Missed = "x" },
		"Schedule.Grace":  func(s *queue.Schedule) { s.Grace = -1 },
	} {
		bad := schedule("bad")
		change(&bad)
		wantInvalid(t, "SetSchedules", scheduler(h).SetSchedules(t.Context(), nil, schedule("good"), bad), field)
		_, err := runner(h).DeclareSchedules(t.Context(), nil, queue.Declaration{Schedules: []queue.Schedule{schedule("good"), bad}})
		wantInvalid(t, "DeclareSchedules", err, field)
	}
	bad := schedule("bad")
	for what, change := range map[string]func(j *queue.Job){
		"Kind":        func(j *queue.Job) { j.Kind = "" },
		"Payload":     func(j *queue.Job) { j.Payload = json.RawMessage(`{`) },
		"length":      func(j *queue.Job) { j.Payload = longPayload },
		"Headers":     func(j *queue.Job) { j.Headers = map[string]string{"x": "\x00"} },
		"ScheduledAt": func(j *queue.Job) { j.ScheduledAt = time.Now() },
	} {
		bad.Job = newJob()
		change(bad.Job)
		wantInvalid(t, "SetSchedules with a bad "+what, scheduler(h).SetSchedules(t.Context(), nil, bad), "Schedule.Job")
		_, err := runner(h).DeclareSchedules(t.Context(), nil, queue.Declaration{Schedules: []queue.Schedule{bad}})
		wantInvalid(t, "DeclareSchedules with a bad "+what, err, "Schedule.Job")
	}
	wantInvalid(t, "SetSchedules with a zone of the machine",
		scheduler(h).SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@daily", Zone: "Local", Job: newJob()}), "Schedule.Zone")
	wantInvalid(t, "SetSchedules of one name twice", scheduler(h).SetSchedules(t.Context(), nil, schedule("a"), schedule("a")), "Schedule.Name")
	tiny := schedule("a")
	tiny.Grace = time.Second - 1
	wantInvalid(t, "SetSchedules with a Grace below a second", scheduler(h).SetSchedules(t.Context(), nil, tiny), "Schedule.Grace")
	for _, name := range []string{"", "a\x00b", "ä"} {
		_, err := scheduler(h).DeleteSchedules(t.Context(), nil, "a", name)
		wantInvalid(t, "DeleteSchedules of a bad name", err, "Schedule.Name")
	}
	_, err := runner(h).DeclareSchedules(t.Context(), nil, queue.Declaration{Release: -1})
	wantInvalid(t, "DeclareSchedules", err, "Declaration.Release")
	listSchedules(t, h, 0)
}

// testScheduleNext: the first tick follows now, in the schedule's zone.
func testScheduleNext(t *testing.T, h Harness) {
	before := time.Now()
	setSchedules(t, h, nil,
		queue.Schedule{Name: "a", Spec: "@every 1h", Job: newJob()},
		queue.Schedule{Name: "b", Spec: "0 12 * * *", Zone: "Asia/Kathmandu", Job: newJob()},
		queue.Schedule{Name: "c", Spec: "0 0 29 2 *", Job: newJob()},
	)
	all := listSchedules(t, h, 3)
	const slack = time.Minute // between the clocks
	if d := all[0].Next.Sub(before); d < time.Hour-slack || d > time.Hour+patience+slack {
		t.Errorf("@every 1h: next is %v after SetSchedules", d)
	}
	if at := all[1].Next.UTC().Format("15:04:05"); at != "06:15:00" || all[1].Next.Sub(before) > 24*time.Hour+slack {
		t.Errorf("noon in Kathmandu: next is %v", all[1].Next)
	}
	if at := all[2].Next.UTC(); at.Month() != time.February || at.Day() != 29 {
		t.Errorf("the 29th of February: next is %v", at)
	}
}

// pauseSchedules pauses or resumes schedules, and checks how many have changed.
func pauseSchedules(t *testing.T, h Harness, db queue.DB, paused bool, want int, names ...string) {
	t.Helper()
	n := 0
	for _, name := range names {
		if pause(t, h, db, queue.Target{Schedule: name}, paused) {
			n++
		}
	}
	if n != want {
		t.Fatalf("pauses of the schedules %q with %v: %d have changed something, want %d", names, paused, n, want)
	}
}

func testSchedulePause(t *testing.T, h Harness) {
	setSchedules(t, h, nil, schedule("a"), schedule("b"))
	pauseSchedules(t, h, nil, true, 1, "a", "none", "a")
	pauseSchedules(t, h, nil, true, 1, "a", "b")
	pauseSchedules(t, h, nil, false, 1, "b")
	all := listSchedules(t, h, 2)
	if a, b := all[0], all[1]; !a.Paused || !a.Next.IsZero() || a.Version != 2 || b.Paused || b.Next.IsZero() || b.Version != 3 {
		t.Errorf("after a pause of a and b, and a resume of b: got %+v", all)
	}
	h.Rewind(t, time.Hour)
	fire(t, h, 1)
	pauseSchedules(t, h, nil, false, 1, "a")
	if next := time.Until(listSchedules(t, h, 2)[0].Next); next < 20*time.Minute || next > 40*time.Minute {
		t.Errorf("a resumed schedule: next in %v, want half an hour", next)
	}
	fire(t, h, 0)
}

func testScheduleTx(t *testing.T, h Harness) {
	setSchedules(t, h, nil, schedule("a"), schedule("b"))
	for _, commits := range []bool{false, true} {
		tx := begin(t, h)
		setSchedules(t, h, tx, schedule("c"))
		pauseSchedules(t, h, tx, true, 1, "b")
		pauseSchedules(t, h, tx, true, 0, "b")
		if n, err := scheduler(h).DeleteSchedules(t.Context(), tx, "a"); n != 1 || err != nil {
			t.Fatalf("DeleteSchedules in a transaction: got %d, error %v", n, err)
		}
		if !h.OneWriter || commits {
			listSchedules(t, h, 2)
		}
		if !commits {
			rollback(t, tx)
			if all := listSchedules(t, h, 2); all[1].Paused || all[1].Version != 1 {
				t.Errorf("after a rollback: got %+v", all)
			}
			continue
		}
		commit(t, tx)
		all := listSchedules(t, h, 2)
		if all[0].Name != "b" || !all[0].Paused || all[1].Name != "c" {
			t.Errorf("after a commit: got %+v", all)
		}
	}
}
