package runner

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/processes"
	"github.com/errandhq/errand/lab/internal/process"
)

// TestMain lets this test program be a child of itself.
func TestMain(m *testing.M) {
	process.ExitIfChild(child.Run)
	os.Exit(m.Run())
}

// play runs one small scenario.
func play(t *testing.T, run func(ctx context.Context, h *harness.Harness) error) *report.Row {
	t.Helper()
	return playOn(t, peer.Default, run)
}

func playOn(t *testing.T, name string, run func(ctx context.Context, h *harness.Harness) error) *report.Row {
	t.Helper()
	var progress bytes.Buffer
	rows, err := Run(t.Context(), Options{Scenarios: []scenario.Scenario{{Number: 99, Name: "tiny", System: name, Run: run}}, Seed: 1, Short: true, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 {
		t.Fatalf("got %d rows, want 1\n%s", len(rows), progress.String())
	}
	return rows[0]
}

// TestTinySigkill kills one worker of four, with everything that belongs to a run: servers,
// processes, ledger, audit.
func TestTinySigkill(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seven seconds")
	}
	r := play(t, func(ctx context.Context, h *harness.Harness) error {
		return processes.KillWorkers(ctx, h, processes.Killing{Jobs: 800, Kills: 1, Calm: 200 * time.Millisecond, Least: time.Millisecond, Most: 2 * time.Millisecond})
	})
	if !r.Pass() || r.Error != "" {
		t.Errorf("got %s, %+v", r.Error, r.Checks)
	}
	if r.Jobs != 800 || r.Faults != 1 || r.Duplicates == 0 || r.Bound < r.Duplicates || r.Bound > 32+1000 {
		t.Errorf("got %d jobs, %d faults, %d duplicates, bound %d; want 800, 1, some, and no fewer", r.Jobs, r.Faults, r.Duplicates, r.Bound)
	}
}

// TestLostJobIsFound deletes a job from the table.
func TestLostJobIsFound(t *testing.T) {
	r := play(t, func(ctx context.Context, h *harness.Harness) error {
		if err := h.Enqueue(ctx, peer.Plain, 1, 2, 3); err != nil {
			return err
		}
		if err := h.Exec(ctx, `DELETE FROM errand.jobs WHERE payload ->> 'number' = '2'`); err != nil {
			return err
		}
		crew, err := h.Crew(1, child.Work{Worker: peer.Worker{Concurrency: 2}})
		if err != nil {
			return err
		}
		_, _, err = crew.Finish(ctx)
		return err
	})
	if r.Pass() || r.Lost != 1 || r.Error != "" || len(r.Checks) == 0 || !strings.Contains(r.Checks[0].Got, "2: neither in the table nor in the ledger") {
		t.Errorf("got %d lost, %s, %+v; want job 2", r.Lost, r.Error, r.Checks)
	}
}

// TestFile runs a scenario whose database is a file, which is removed afterwards.
func TestFile(t *testing.T) {
	var file string
	r := playOn(t, "sqlite", func(ctx context.Context, h *harness.Harness) error {
		file = h.File
		if err := h.Enqueue(ctx, peer.Plain, 1, 2, 3); err != nil {
			return err
		}
		crew, err := h.Crew(2, child.Work{Worker: peer.Worker{Concurrency: 2}})
		if err != nil {
			return err
		}
		_, _, err = crew.Finish(ctx)
		return err
	})
	if !r.Pass() || r.Jobs != 3 || r.System != "sqlite" || !strings.HasPrefix(r.Server, "SQLite 3.") {
		t.Errorf("got %d jobs, %s on %s, %s, %+v; want 3 on SQLite", r.Jobs, r.System, r.Server, r.Error, r.Checks)
	}
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("%s: got %v, want that its folder is gone", file, err)
	}
}

// TestDeadWorkerIsNoticed starts a worker that ends by itself.
func TestDeadWorkerIsNoticed(t *testing.T) {
	r := play(t, func(ctx context.Context, h *harness.Harness) error {
		if _, err := h.Crew(1, child.Work{Worker: peer.Worker{Concurrency: -1}}); err != nil {
			return err
		}
		return h.Sleep(ctx, time.Minute)
	})
	if r.Pass() || !strings.Contains(r.Error, "w1.1: it ended by itself") || !strings.Contains(r.Error, "Concurrency") {
		t.Errorf("got %q, want that w1.1 ended because of its Concurrency", r.Error)
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{"1", "sigkill"} {
		if found := Find(name); len(found) != 1 || found[0].Number != 1 {
			t.Errorf("%s: got %d scenarios, want number 1", name, len(found))
		}
	}
	if found := Find("13"); len(found) != 2 {
		t.Errorf("13: got %d scenarios, want both", len(found))
	}
	if len(Find("0")) > 0 {
		t.Error("0: found")
	}
	names := make(map[string]bool)
	for i, s := range All {
		if names[s.Name] || s.Run == nil || s.What == "" || i > 0 && s.Number < All[i-1].Number {
			t.Errorf("%d %s: not unique, not complete, or not in its place", s.Number, s.Name)
		}
		if _, ok := peer.Named(cmp.Or(s.System, peer.Default)); !ok {
			t.Errorf("%d %s: there is no system %s", s.Number, s.Name, s.System)
		}
		names[s.Name] = true
	}
}
