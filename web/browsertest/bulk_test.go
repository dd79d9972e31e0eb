package browsertest

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

// slow is a queue that takes longer to cancel a batch than a request may work.
type slow struct{ *memory.Queue }

func (q slow) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (int, error) {
	time.Sleep(2100 * time.Millisecond)
	return q.Queue.Cancel(ctx, db, which)
}

// TestReloadInBulkAction: a person who reloads the page in the middle of an action on many jobs can
// go on from there. In the end all jobs that were shown are cancelled, and no others.
func TestReloadInBulkAction(t *testing.T) {
	q := memory.New(memory.Options{})
	s := siteOf(t, q, slow{q})
	for range 2500 {
		s.enqueue(&queue.Job{Kind: "a"})
	}
	b := newTab(t)
	b.look(1280, 800, "light")
	b.open(s.url + "bulk?action=cancel&status=pending&kind=a")
	s.enqueue(&queue.Job{Kind: "a"})
	b.tabTo("the number", `e.name === "typed"`)
	b.press("2500")
	b.tabTo("the reason", `e.name === "reason"`)
	b.press("wrong template")
	b.tabTo("the button", `e.nodeName === "BUTTON" && e.className === "danger"`)
	b.press(kb.Enter)
	notice := `document.querySelector(".notice")?.textContent ?? ""`
	b.until("it says how far it is", `(`+notice+`).startsWith("1,000 jobs changed, 0 left alone") && (`+notice+`).endsWith("There are more.")`)

	b.do(`window.isOld = true`)
	b.run(chromedp.Reload())
	b.until("the page is loaded anew", `!window.isOld && (`+notice+`).startsWith("1,000 jobs changed")`)
	b.tabTo("Go on", `e.nodeName === "BUTTON" && e.textContent === "Go on"`)
	b.press(kb.Enter)
	b.until("it is done", `(`+notice+`).endsWith("Done.")`)
	for id, want := range map[int64]queue.Status{1: queue.StatusCancelled, 500: queue.StatusCancelled, 501: queue.StatusCancelled,
		1500: queue.StatusCancelled, 2500: queue.StatusCancelled, 2501: queue.StatusPending} {
		if r, _, err := q.Job(t.Context(), id); err != nil || r.Status != want {
			t.Errorf("job %d: %s, %v", id, r.Status, err)
		}
	}
	entries, _, err := q.AuditLog(t.Context(), queue.AuditFilter{})
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d audit entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Reason != "wrong template" {
			t.Errorf("the reason of %s: %q", e.Selection, e.Reason)
		}
	}
	b.wantClean()
}
