package child

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/errandhq/errand/lab/internal/process"
)

// TestMain plays a child of the part's name.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != process.Argument {
		os.Exit(m.Run())
	}
	var spec Spec
	if err := json.Unmarshal([]byte(os.Args[2]), &spec); err != nil {
		os.Exit(9)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	if spec.Part == "stillborn" {
		fmt.Fprintln(os.Stderr, "no disk")
		os.Exit(3)
	}
	fmt.Println("ready")
	switch spec.Part {
	case "polite":
		<-term
		os.Exit(0)
	case "rude":
		<-term
		fmt.Fprintln(os.Stderr, "never")
		os.Exit(4)
	case "told":
		bufio.NewScanner(os.Stdin).Scan()
		os.Exit(5)
	case "enqueue":
		os.Exit(0)
	case "suicide":
		killSelf()
	}
	select {} // until it is killed
}

func start(t *testing.T, part string) *Process {
	t.Helper()
	s := NewStarter("")
	t.Cleanup(s.Close)
	p, err := s.Start(Spec{Part: part, Name: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// patience is far longer than any test takes.
const patience = 20 * time.Second

func awaitEnd(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

func TestStillborn(t *testing.T) {
	s := NewStarter("")
	defer s.Close()
	_, err := s.Start(Spec{Part: "stillborn", Name: "w1"})
	if err == nil || !strings.Contains(err.Error(), "w1: it ended before it was ready") || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("got %v, want that w1 ended before it was ready, and what it said", err)
	}
}

func TestTerminate(t *testing.T) {
	polite, rude := start(t, "polite"), start(t, "rude")
	for _, p := range []*Process{polite, rude} {
		if err := p.Unexpected(); err != nil {
			t.Fatal(err)
		}
		if err := p.Terminate(); err != nil {
			t.Fatal(err)
		}
	}
	if err := polite.Wait(patience); err != nil || polite.EndedAt().IsZero() {
		t.Errorf("polite: got %v at %v, want nil", err, polite.EndedAt())
	}
	if err := rude.Wait(patience); err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "never") {
		t.Errorf("rude: got %v, want exit status 4, and what it said", err)
	}
	if polite.Unexpected() != nil || rude.Unexpected() == nil {
		t.Errorf("unexpected: got %v of the polite one and %v of the rude one, want an error of the latter", polite.Unexpected(), rude.Unexpected())
	}
}

func TestKillIsExpected(t *testing.T) {
	p := start(t, "sleep")
	p.Kill()
	if err := p.Unexpected(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if err := p.Wait(patience); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Wait: got %v, want that it was killed", err)
	}
}

func TestEndByItself(t *testing.T) {
	told, enqueuer := start(t, "told"), start(t, "enqueue")
	if err := told.Go(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, told)
	awaitEnd(t, enqueuer)
	if err := told.Unexpected(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("a worker: got %v, want that it ended by itself", err)
	}
	if err := enqueuer.Unexpected(); err != nil {
		t.Errorf("an enqueuer that is through: got %v, want nil", err)
	}
}

// TestAllowKill: an end by SIGKILL is expected only after AllowKill, and no other end is.
func TestAllowKill(t *testing.T) {
	killed, told := start(t, "suicide"), start(t, "told")
	awaitEnd(t, killed)
	if err := killed.Unexpected(); err == nil {
		t.Error("not exposed: got nil, want an error")
	}
	killed.AllowKill()
	if err := killed.Unexpected(); err != nil {
		t.Errorf("exposed: got %v, want nil", err)
	}
	told.AllowKill()
	if err := told.Go(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, told)
	if err := told.Unexpected(); err == nil || !strings.Contains(err.Error(), "exit status 5") {
		t.Errorf("exposed, and not killed: got %v, want exit status 5", err)
	}
}

func TestBadTexts(t *testing.T) {
	for text, want := range map[string]struct{ nul, bad, long bool }{
		NUL: {nul: true}, NoUTF8: {bad: true}, Long: {long: true}, AllBad: {true, true, true},
	} {
		got := BadOutcome{Text: text}.Error()
		if strings.Contains(got, "\x00") != want.nul || utf8.ValidString(got) == want.bad || (len(got) >= 50_000_000) != want.long || !strings.HasPrefix(got, BadPrefix) {
			t.Errorf("%s: got %.40q of %d bytes, want NUL %v, bad UTF-8 %v, long %v", text, got, len(got), want.nul, want.bad, want.long)
		}
	}
}

func TestWaitTimesOut(t *testing.T) {
	p := start(t, "sleep")
	if err := p.Wait(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 10ms") {
		t.Errorf("got %v, want that it did not end", err)
	}
	awaitEnd(t, p)
}

func TestFrozenChildGoesOn(t *testing.T) {
	p := start(t, "polite")
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ended():
		t.Error("a frozen child ends on SIGTERM")
	case <-time.After(100 * time.Millisecond):
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(patience); err != nil {
		t.Error(err)
	}
}

func TestFrozenCases(t *testing.T) {
	all := make(map[FrozenCase]bool)
	for n := range FrozenCases {
		all[FrozenCaseOf(n)] = true
		if FrozenCaseOf(n) != FrozenCaseOf(n+FrozenCases) {
			t.Errorf("%d: not the same in the next round", n)
		}
	}
	if len(all) != 16 {
		t.Errorf("got %d cases, want 16: 4 verbs, attentive or not, with a slow rival or not", len(all))
	}
}
