package queue_test

import (
	"archive/zip"
	"bytes"
	"context"
	"go/build"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// foreignZone is the name of a zone that has other data in each of two processes.
const foreignZone = "Test/Vancouver"

// vancouver returns Go's data of America/Vancouver with a footer, the rule for times to come.
func vancouver(t *testing.T, footer string) *time.Location {
	t.Helper()
	r, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	text, err := fs.ReadFile(r, "America/Vancouver")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(text, []byte("\n"))
	lines[len(lines)-2] = []byte(footer)
	zone, err := time.LoadLocationFromTZData(foreignZone, bytes.Join(lines, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// vancouvers returns that zone's data of two processes. By the first its clocks change, and by the
// second they have stayed at summer time since 2026.
func vancouvers(t *testing.T) [2]*time.Location {
	return [2]*time.Location{vancouver(t, "PST8PDT,M3.2.0,M11.1.0"), vancouver(t, "MST7")}
}

// TestForeignTicks: two processes with other data of a zone fire a schedule in any order, for a
// year. Each tick of a day or a week is fired once, and no tick of an hour is left out, also where
// ticks were missed.
func TestForeignTicks(t *testing.T) {
	zones := vancouvers(t)
	for _, c := range []struct {
		spec  string
		every time.Duration
		slack time.Duration
	}{
		{"0 9 * * *", 24 * time.Hour, time.Hour},
		{"@daily", 24 * time.Hour, time.Hour},
		{"30 23 * * *", 24 * time.Hour, time.Hour},
		{"30 0 * * *", 24 * time.Hour, time.Hour},
		{"0 9 * * 1", 7 * 24 * time.Hour, time.Hour},
		{"15 * * * *", time.Hour, 0},
		{"*/15 * * * *", 15 * time.Minute, 0},
		{"@every 7h", 7 * time.Hour, 0},
	} {
		for _, absence := range []int{0, 5} { // at most so many ticks are missed
			s := queue.Schedule{Name: "a", Spec: c.spec, Zone: foreignZone, Missed: queue.MissedAll, Job: &queue.Job{Kind: "k"}}
			begin := time.Date(2030, 9, 1, 0, 0, 0, 0, time.UTC)
			queue.SetZone(t, zones[0])
			next, err := s.NextTick(begin, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			last := next.Add(-c.every)
			for next.Before(begin.AddDate(1, 0, 0)) {
				queue.SetZone(t, zones[rand.IntN(2)])
				jobs, following, err := s.Fire(next, next.Add(time.Duration(rand.IntN(absence+1))*c.every))
				if err != nil || len(jobs) == 0 || !following.After(next) {
					t.Fatalf("%s: Fire at %v: got %d jobs, next %v, error %v", c.spec, next, len(jobs), following, err)
				}
				for _, j := range jobs {
					_, tick, _ := queue.TickOf(j)
					if apart := tick.Sub(last); (apart - c.every).Abs() > c.slack {
						t.Fatalf("%s: ticks at %v and %v are %v apart, want %v, give or take %v", c.spec, last, tick, apart, c.every, c.slack)
					}
					last = tick
				}
				next = following
			}
		}
	}
}

// TestForeignTick: a foreign tick stands for the time that follows it, also where both were missed,
// unless the time before is as near, or it is more than three hours away.
func TestForeignTick(t *testing.T) {
	queue.SetZone(t, vancouvers(t)[0])
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse("02 15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.AddDate(2030, 11, 0) // from year 0, January
	}
	for _, c := range []struct {
		spec       string
		missed     queue.MissedPolicy
		now, ticks string
		next       string
	}{
		{"0 9 * * *", queue.MissedLast, "02 17:30:00", "2030-12-02T16:00:00Z", "03 17:00:00"},
		{"0 9 * * *", queue.MissedLast, "03 17:30:00", "2030-12-03T17:00:00Z", "04 17:00:00"},
		{"0 9 * * *", queue.MissedAll, "03 17:30:00", "2030-12-02T16:00:00Z 2030-12-03T17:00:00Z", "04 17:00:00"},
		{"0 9 * * *", queue.MissedSkip, "02 16:00:30", "2030-12-02T16:00:00Z", "03 17:00:00"},
		{"0 9 * * *", queue.MissedSkip, "02 17:00:30", "", "03 17:00:00"},
		{"0 9 * * *", queue.MissedLast, "02 15:00:00", "", "02 16:00:00"}, // it has not come
		{"0 1-23/2 * * *", queue.MissedLast, "02 16:00:00", "2030-12-02T16:00:00Z", "02 17:00:00"},
		{"0 11 * * *", queue.MissedLast, "02 16:00:00", "2030-12-02T16:00:00Z", "03 19:00:00"},
		{"0 12 * * *", queue.MissedLast, "02 16:00:00", "2030-12-02T16:00:00Z", "02 20:00:00"},
	} {
		s := queue.Schedule{Name: "a", Spec: c.spec, Zone: foreignZone, Missed: c.missed, Job: &queue.Job{Kind: "k"}}
		jobs, next, err := s.Fire(at("02 16:00:00"), at(c.now))
		var ticks []string
		for _, j := range jobs {
			ticks = append(ticks, j.Headers[queue.TickHeader])
		}
		if got := strings.Join(ticks, " "); got != c.ticks || !next.Equal(at(c.next)) || err != nil {
			t.Errorf("%s, Missed %q at %s: got ticks %q, next %v, error %v; want %q, %s", c.spec, c.missed, c.now, got, next, err, c.ticks, c.next)
		}
	}
}

// TestForeignTickIsLogged: a worker fires a tick that a process with other data of the zone has
// stored, logs that once, and does not run the job again an hour later.
func TestForeignTickIsLogged(t *testing.T) {
	zones := vancouvers(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2030, 12, 2, 12, 0, 0, 0, time.UTC)))
		q := queuetest.New(queuetest.Options{})
		queue.SetZone(t, zones[1])
		s := queue.Schedule{Name: "a", Spec: "0 9 * * *", Zone: foreignZone, Job: &queue.Job{Kind: "k"}}
		if err := q.SetSchedules(t.Context(), nil, s); err != nil {
			t.Fatal(err)
		}
		queue.SetZone(t, zones[0])
		var ticks []string
		var log bytes.Buffer
		ctx, stop := context.WithTimeout(t.Context(), 3*24*time.Hour)
		defer stop()
		err := engine.Worker{Backend: q, Logger: slog.New(slog.NewTextHandler(&log, nil)), Handler: queue.HandlerFunc(func(_ context.Context, j *queue.Job) error {
			ticks = append(ticks, j.Headers[queue.TickHeader])
			return nil
		})}.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		const want = "2030-12-02T16:00:00Z 2030-12-03T17:00:00Z 2030-12-04T17:00:00Z"
		if got := strings.Join(ticks, " "); got != want {
			t.Errorf("ticks: got %s, want %s", got, want)
		}
		for _, want := range []string{"level=WARN", "fired a tick of other time zone data", `schedule \"a\": fired its tick 2030-12-02T16:00:00Z`, "in place of 2030-12-02T17:00:00Z"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log should have %q once:\n%s", want, &log)
			}
		}
	})
}
