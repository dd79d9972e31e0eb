package child

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/internal/process"
)

// TestMain lets this test program be a child of itself.
func TestMain(m *testing.M) {
	process.ExitIfChild(Run)
	os.Exit(m.Run())
}

// script returns a child that is a shell script.
func script(lines ...string) []string {
	return []string{"sh", "-c", strings.Join(lines, "\n"), "sh"}
}

func start(t *testing.T, program []string, spec Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), program, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestProcessSpeaksTheProtocol(t *testing.T) {
	p := start(t, script(
		`case "$1" in *'"part":"work"'*) ;; *) exit 9 ;; esac`,
		`echo ready`,
		`read go; [ "$go" = go ] || exit 8`,
		`echo count 2; echo 'sample {"p99": 1.5}'; echo count 3`,
		`cat >/dev/null`,
		`echo 'result {"handled": 3, "sum": 6, "cpu": 0.25, "peak_rss": 4096, "written": 512, "figures": {"rate": 7}}'`,
	), Spec{Part: "work", System: "errand"})
	if err := p.Go(); err != nil {
		t.Fatal(err)
	}
	for p.Handled() < 3 {
		<-p.Changed()
	}
	if s := p.Samples(); len(s) != 1 || s[0]["p99"] != 1.5 {
		t.Errorf("samples: got %v, want one with p99 1.5", s)
	}
	r, err := p.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if r.Handled != 3 || r.Sum != 6 || r.CPU != 0.25 || r.PeakRSS != 4096 || r.Written != 512 || r.Figures["rate"] != 7 {
		t.Errorf("result: got %+v", r)
	}
}

func TestProcessThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		script []string
		want   string
	}{
		"before it is ready":        {[]string{`echo no disk >&2; exit 3`}, "no disk"},
		"without a result":          {[]string{`echo ready`, `cat >/dev/null`}, "without a result"},
		"saying nonsense":           {[]string{`echo ready`, `cat >/dev/null`, `echo hello`, `echo 'result {}'`}, `it said "hello"`},
		"with a bad result":         {[]string{`echo ready`, `cat >/dev/null`, `echo 'result {'`}, "JSON"},
		"after its result":          {[]string{`echo ready`, `cat >/dev/null`, `echo 'result {}'`, `exit 4`}, "exit status 4"},
		"with a count that is none": {[]string{`echo ready`, `cat >/dev/null`, `echo count x`, `echo 'result {}'`}, "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(t.Context(), script(c.script...), Spec{Part: "work", System: "asynq"})
			if err == nil {
				_, err = p.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "asynq work: ") {
				t.Errorf("got %v, want asynq work: … %s", err, c.want)
			}
		})
	}
}

func TestProcessEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, script(`echo ready`, `exec sleep 60`), Spec{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	from := time.Now()
	if _, err := p.Wait(); err == nil || time.Since(from) > 10*time.Second {
		t.Errorf("got %v after %v, want an error at once", err, time.Since(from))
	}
}

func TestStartOfNoProgram(t *testing.T) {
	if _, err := Start(t.Context(), []string{"/no/such/program"}, Spec{System: "errand", Part: "work"}); err == nil {
		t.Error("got nil, want an error")
	}
}

func TestIdealRunsEachJobOnce(t *testing.T) {
	p := start(t, nil, Spec{Part: "ideal", System: "ideal", Jobs: 100, Concurrency: 10, Handler: time.Millisecond})
	if err := p.Go(); err != nil {
		t.Fatal(err)
	}
	r, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if r.Handled != 100 || r.Sum != 99*100/2 {
		t.Errorf("got %d jobs with the sum %d, want 100 and %d", r.Handled, r.Sum, 99*100/2)
	}
	if rate := r.Figures["rate"]; rate <= 0 || rate > 10_000 {
		t.Errorf("rate of 10 goroutines that take 1 ms: got %v", rate)
	}
	if r.PeakRSS <= 0 {
		t.Errorf("peak RSS: got %d", r.PeakRSS)
	}
}

func TestChildThatIsToldToEndBeforeItBegins(t *testing.T) {
	p := start(t, nil, Spec{Part: "ideal", System: "ideal", Jobs: 1, Concurrency: 1})
	if _, err := p.Stop(); err == nil || !strings.Contains(err.Error(), "before it began") {
		t.Errorf("got %v, want that it was told to end before it began", err)
	}
}

func TestNoSuchPart(t *testing.T) {
	if _, err := Start(t.Context(), nil, Spec{Part: "play"}); err == nil || !strings.Contains(err.Error(), `no part "play"`) {
		t.Errorf("got %v, want no part", err)
	}
}

func TestLatencyTimes(t *testing.T) {
	log := newTimes(4)
	for i, late := range []int64{4e6, -1e6, 2e6, 1e6} { // the second handler ran before the enqueue returned
		log.sent[i] = 10e6
		log.handled[i].Store(10e6 + late)
	}
	log.started(4) // a job of the warm-up
	f := log.figures()
	if f["p50"] != 1 || f["p99"] != 4 || f["max"] != 4 {
		t.Errorf("got %v, want p50 1, p99 and max 4", f)
	}
}
