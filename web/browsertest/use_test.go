package browsertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/errandhq/errand/queue"
)

// press presses keys.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until an element is focused that a script accepts.
func (b *tab) tabTo(what, isIt string) {
	b.t.Helper()
	for range 60 {
		b.press(kb.Tab)
		if eval[bool](b, `(e => `+isIt+`)(document.activeElement)`) {
			if !eval[bool](b, `document.activeElement.matches(":focus-visible")`) {
				b.t.Errorf("%s: the focus cannot be seen", what)
			}
			return
		}
	}
	b.t.Fatalf("Tab does not reach %s", what)
}

// TestKeyboard: a person with a keyboard alone skips the navigation, filters the list, opens a job
// and retries it with a reason.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	s.stock()
	b := newTab(t)
	b.look(1280, 800, "light")
	b.open(s.url + "jobs")
	b.press(kb.Tab, kb.Enter)
	b.until("the skip link leads to the content", `location.hash === "#main" && document.activeElement.id === "main"`)
	b.tabTo("the status", `e.name === "status"`)
	b.press("d") // dead
	b.tabTo("the kind", `e.name === "kind"`)
	b.press("email.welcome")
	b.press(kb.Enter)
	b.until("the list is filtered", `location.search.includes("status=dead") && document.querySelectorAll("tbody tr").length === 1`)
	b.tabTo("the job", `e.className === "kind"`)
	b.press(kb.Enter)
	b.until("the job's page", `location.pathname.endsWith("/jobs/2")`)
	b.tabTo("Retry", `e.nodeName === "SUMMARY" && e.textContent === "Retry"`)
	b.press(kb.Enter)
	b.tabTo("the reason", `e.name === "reason"`)
	b.press("mailbox emptied")
	b.tabTo("the button", `e.nodeName === "BUTTON"`)
	b.press(kb.Enter)
	b.until("it says that it is done", `document.querySelector(".notice")?.textContent === "The job is pending again."`)
	if r, _, err := s.q.Job(t.Context(), 2); err != nil || r.Status != queue.StatusPending {
		t.Errorf("the job is %s, %v", r.Status, err)
	}
	b.wantClean()
}

// TestRefresh: a page changes by itself. What is open, focused or typed stays, a page waits while a
// person types, and Pause stops it.
func TestRefresh(t *testing.T) {
	s := newSite(t)
	s.stock()
	b := newTab(t)
	b.look(1280, 800, "light")
	b.open(s.url + "queues/mail")
	count := `document.querySelector(".status.pending")?.previousElementSibling?.textContent`
	b.do(`document.querySelector("#pause > summary").focus(); document.querySelector("#pause").open = true; window.same = document.querySelector("#pause")`)
	s.enqueue(&queue.Job{Kind: "email.welcome", Queue: "mail"})
	b.until("the page shows the job", count+` === "1"`)
	if !eval[bool](b, `same.isConnected && same.open && document.activeElement === same.querySelector("summary")`) {
		t.Error("the refresh has closed the details, or taken the focus")
	}

	b.do(`document.querySelector("#pause input").focus()`)
	b.press("because")
	s.enqueue(&queue.Job{Kind: "email.welcome", Queue: "mail"})
	time.Sleep(5 * time.Second)
	if eval[bool](b, count+` !== "1"`) {
		t.Error("the page has changed under a person who types")
	}
	b.do(`document.activeElement.blur()`)
	b.until("the page goes on", count+` === "2"`)
	if got := eval[string](b, `document.querySelector("#pause input").value`); got != "because" {
		t.Errorf("what was typed is now %q", got)
	}

	b.do(`document.getElementById("live-button").click()`)
	s.enqueue(&queue.Job{Kind: "email.welcome", Queue: "mail"})
	time.Sleep(5 * time.Second)
	if eval[bool](b, count+` !== "2" || document.getElementById("live-text").textContent !== "Paused"`) {
		t.Error("a paused page changes")
	}
	b.do(`document.getElementById("live-button").click()`)
	b.until("the page goes on", count+` === "3"`)
	b.wantClean()
}

// TestDoubt: a page that has not been refreshed for 15 seconds takes its verdict back, and says
// since when it knows nothing. The next refresh brings a verdict.
func TestDoubt(t *testing.T) {
	s := newSite(t)
	b := newTab(t)
	b.open(s.url)
	const word = `document.querySelector(".verdict .word").textContent`
	b.until("all is well", word+` === "All well"`)
	b.do(`document.getElementById("live-button").click()`)
	b.do(`const now = Date.now; Date.now = () => now() + 16_000`)
	b.until("the page does not know", word+` === "Unknown" && document.querySelector(".verdict").className === "verdict unknown"`)
	if text := eval[string](b, `document.querySelector(".verdict").textContent`); !strings.Contains(text, "Not known since") || !strings.Contains(text, "Then: All well.") {
		t.Errorf("it says %q", text)
	}
	b.do(`document.getElementById("live-button").click()`)
	b.until("it knows again", word+` === "All well" && document.querySelector(".verdict").className === "verdict ok"`)
	b.wantClean()
}

// TestReadNow: the button has everything read again, without JavaScript, too.
func TestReadNow(t *testing.T) {
	s := newSite(t)
	b := newTab(t)
	b.run(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.open(s.url + "queues?from=test")
	s.enqueue(&queue.Job{Kind: "a", Queue: "mail"})
	b.tabTo("the button", `e.textContent === "Read now"`)
	b.press(kb.Enter)
	b.until("the page is read again", `document.querySelector("[role=status]")?.textContent === "The page was read again." && document.querySelector("#queue-mail") !== null`)
	if got := eval[string](b, `location.search`); got != "?did=read&from=test&n=1" {
		t.Errorf("the page is now %q", got)
	}
	b.wantClean()
}

// TestTicks: a person with a keyboard alone ticks two jobs of a list and cancels these. The list
// stays as it is while jobs are ticked. It works without JavaScript, too.
func TestTicks(t *testing.T) {
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script=%v", script), func(t *testing.T) {
			s := newSite(t)
			for range 5 {
				s.enqueue(&queue.Job{Kind: "a"})
			}
			b := newTab(t)
			b.run(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !script}))
			b.look(1280, 800, "light")
			b.open(s.url + "jobs?status=pending")
			for _, id := range []string{"4", "2"} {
				b.tabTo("the box", `e.name === "job" && e.value === "`+id+`"`)
				b.press(" ")
			}
			if script {
				b.do(`document.activeElement.blur()`)
				s.enqueue(&queue.Job{Kind: "a"})
				time.Sleep(5 * time.Second)
				if eval[bool](b, `document.querySelector("#job-6") !== null || document.getElementById("live-text").textContent !== "Waiting"`) {
					t.Error("a list with ticked jobs has changed")
				}
			}
			b.tabTo("the button", `e.nodeName === "BUTTON" && e.value === "cancel"`)
			b.press(kb.Enter)
			b.until("the preview", `document.querySelector("main strong")?.textContent === "2 jobs."`)
			if got := eval[string](b, `[...document.querySelectorAll("tbody tr")].map(r => r.id).join(" ")`); got != "job-4 job-2" {
				t.Errorf("the preview shows %s", got)
			}
			b.tabTo("the button", `e.nodeName === "BUTTON" && e.className === "danger"`)
			b.press(kb.Enter)
			b.until("it is done", `(document.querySelector(".notice")?.textContent ?? "").startsWith("2 jobs changed, 0 left alone")`)
			for id, want := range map[int64]queue.Status{1: queue.StatusPending, 2: queue.StatusCancelled, 3: queue.StatusPending, 4: queue.StatusCancelled, 5: queue.StatusPending} {
				if r, _, err := s.q.Job(t.Context(), id); err != nil || r.Status != want {
					t.Errorf("job %d: %s, %v", id, r.Status, err)
				}
			}
			b.wantClean()
		})
	}
}

// TestRows: rows of a list come, change and go, and those that stay are the same elements.
func TestRows(t *testing.T) {
	s := newSite(t)
	for range 5 {
		s.enqueue(&queue.Job{Kind: "a"})
	}
	b := newTab(t)
	b.look(1280, 800, "light")
	b.open(s.url + "jobs?status=pending")
	rows := `[...document.querySelectorAll("tbody tr")].map(r => r.id).join(" ")`
	b.do(`document.querySelector("#job-2 a").focus(); window.same = document.activeElement`)
	if _, err := s.q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{3, 5}}); err != nil {
		t.Fatal(err)
	}
	s.enqueue(&queue.Job{Kind: "b"}, &queue.Job{Kind: "b"})
	b.until("the list is up to date", rows+` === "job-7 job-6 job-4 job-2 job-1"`)
	if !eval[bool](b, `document.activeElement === same`) {
		t.Error("the refresh has taken the focus")
	}
	b.wantClean()
}

// TestHostileTexts: whatever is stored in a job, no dialog opens, no script fails and the
// Content-Security-Policy has nothing to report.
func TestHostileTexts(t *testing.T) {
	s := newSite(t)
	open := maps.Clone(pages)
	for i, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
		`</pre></bdi><svg onload=alert(1)>`, `<style>*{display:none}</style>`, "\u202egnp.exe", "a\x1b[2Jb", `</script><script>alert(1)`,
	} {
		name := regexp.MustCompile(`[^ -~]`).ReplaceAllString(text, "?")
		quoted, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		s.enqueue(&queue.Job{Kind: name, Queue: name, Group: text, Key: text, Payload: quoted, Headers: map[string]string{text: text}})
		s.settle(queue.Dead, fmt.Errorf("%s", text), 0, s.claim(name, 1)...)
		open[fmt.Sprint(i)] = fmt.Sprintf("jobs/%d?values=1", i+1)
	}
	open["hostile-ticked"] = "bulk?action=redrive&status=dead&ticked=1&job=1&job=2&job=3&job=4&job=5&job=6&job=7&job=8&job=9"
	b := newTab(t)
	b.look(1280, 800, "light")
	b.open(s.url + "kinds")
	kinds := eval[[]string](b, `[...document.querySelectorAll("tbody th a")].map(a => a.getAttribute("href"))`)
	if len(kinds) != 9 {
		t.Errorf("the page of kinds has the links %q", kinds)
	}
	for i, kind := range kinds {
		open[fmt.Sprintf("kind-%d", i)] = kind
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		b.open(s.url + open[name])
		if eval[bool](b, `getComputedStyle(document.body).display === "none"`) {
			t.Errorf("%s is hidden", name)
		}
	}
	b.wantClean()

	b.do(`try { document.body.innerHTML = "<b>x</b>" } catch {}`)
	for end := time.Now().Add(20 * time.Second); len(b.takeProblems()) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the test does not notice reports of the Content-Security-Policy")
		}
	}
}
