package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout is how long a test may use the browser.
const timeout = 4 * time.Minute

// browser is one Chromium for all tests of a package, or why there is none.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := findChromium()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, // tests run as root in containers
		chromedp.Flag("host-resolver-rules", "MAP "+evilHost+" 127.0.0.1"),
		chromedp.Flag("force-device-scale-factor", "1"))
	all, cancelAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(all)
	stop = func() { cancel(); cancelAll() }
	return ctx, chromedp.Do(ctx)
})

func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no chromium, chromium-browser or google-chrome in PATH: apt-get install chromium")
}

// stop ends the browser, if it was started.
var stop = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // dialogs, errors of scripts and reports of the Content-Security-Policy
}

// newTab opens a tab that is closed when the test ends. Without a browser the test is skipped, and
// fails in CI.
func newTab(t *testing.T) *tab {
	t.Helper()
	b, err := browser()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, cancel := chromedp.NewContext(b)
	t.Cleanup(cancel)
	ctx, cancelTimeout := context.WithTimeout(ctx, timeout)
	t.Cleanup(cancelTimeout)
	tab := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.note); err != nil {
		t.Fatal(err)
	}
	tab.run(command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}))
	return tab
}

// note notes what must not happen on any page.
func (b *tab) note(event any) {
	problem := ""
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		problem = "dialog: " + e.Message
		go func() {
			_ = chromedp.Do(b.ctx, command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}))
		}()
	case *runtime.EventExceptionThrown:
		problem = fmt.Sprintf("exception: %+v", e.ExceptionDetails)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "the server responded with a status of") {
			problem = "console: " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if problem != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, problem)
	}
}

// wantClean fails the test for what the pages have done that they must not do.
func (b *tab) wantClean() {
	b.t.Helper()
	for _, p := range b.takeProblems() {
		b.t.Error(p)
	}
}

// takeProblems returns what was noted since it was called last.
func (b *tab) takeProblems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	problems := b.problems
	b.problems = nil
	return problems
}

// command returns the action that sends a command to the browser.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// run runs actions in the tab.
func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// look sets the size of the window and the colours that the system asks for.
func (b *tab) look(width, height int64, scheme string) {
	b.t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	b.run(chromedp.EmulateViewport(width, height), command(emulation.SetEmulatedMedia, media))
}

// open opens a page, and opens it again while it says that values are being read.
func (b *tab) open(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
	for eval[bool](b, `document.querySelector(".awaits") !== null`) {
		b.run(chromedp.Navigate(url))
	}
}

// eval returns what a script returns.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// do runs a script.
func (b *tab) do(script string) {
	b.t.Helper()
	eval[bool](b, script+"; true")
}

// until waits until a script returns true.
func (b *tab) until(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if eval[bool](b, script) {
			return
		}
	}
	b.t.Fatalf("it never happened: %s", what)
}
