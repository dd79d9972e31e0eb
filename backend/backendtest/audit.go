package backendtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var auditCases = []testCase{
	{"append and list", hasAuditor, testAudit},
	{"filters and pages", hasAuditor, testAuditPages},
	{"an action and its entry", hasAuditor | hasCanceller | hasTx, testAuditInTx},
	{"bad entries", hasAuditor, testAuditBad},
	{"bad filters", hasAuditor, testAuditLogBad},
}

func auditor(h Harness) driver.Auditor {
	a, _ := driver.As[driver.Auditor](h.Queue)
	return a
}

func audit(t *testing.T, h Harness, db queue.DB, entries ...queue.AuditEntry) {
	t.Helper()
	if err := auditor(h).Audit(t.Context(), db, entries...); err != nil {
		t.Fatalf("Audit: %v", err)
	}
}

// auditLog lists a page.
func auditLog(t *testing.T, h Harness, f queue.AuditFilter) (page []queue.AuditEntry, next int64) {
	t.Helper()
	page, next, err := auditor(h).AuditLog(t.Context(), f)
	if err != nil {
		t.Fatalf("AuditLog(%+v): %v", f, err)
	}
	return page, next
}

// wantAudit checks the actions of the entries that f chooses, the newest first.
func wantAudit(t *testing.T, h Harness, when string, f queue.AuditFilter, want ...string) (page []queue.AuditEntry) {
	t.Helper()
	page, _ = auditLog(t, h, f)
	var got []string
	for _, e := range page {
		got = append(got, e.Action)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("AuditLog(%+v) %s: got %q, want %q", f, when, got, want)
	}
	return page
}

// testAudit: what is written comes back as it was, with an ID and a time of the backend.
func testAudit(t *testing.T, h Harness) {
	audit(t, h, nil)
	wantAudit(t, h, "at first", queue.AuditFilter{})
	full := queue.AuditEntry{
		ID: 1 << 50, At: time.Unix(0, 0), Actor: "Ada \"Ä\" {x,NULL}\\\n", Action: "cancel", Selection: "kind=k, {\"é\": [1]}\t'",
		Count: 1 << 60, Reason: "wrong template 😀", JobID: 1 << 61,
	}
	longest := queue.AuditEntry{
		Actor: strings.Repeat("a", 200), Action: strings.Repeat("b", 200), Selection: strings.Repeat("c", 10_000),
		Reason: strings.Repeat("d", 2_000),
	}
	audit(t, h, nil, full, queue.AuditEntry{Actor: "NULL", Action: "pause"}, longest)
	got := wantAudit(t, h, "", queue.AuditFilter{}, longest.Action, "pause", "cancel")
	if len(got) != 3 {
		return
	}
	for i, want := range []queue.AuditEntry{longest, {Actor: "NULL", Action: "pause"}, full} {
		g := got[i]
		if g.ID < 1 || g.ID == full.ID || i > 0 && g.ID >= got[i-1].ID || time.Since(g.At).Abs() > time.Hour {
			t.Errorf("entry %d: got ID %d and time %v, want the backend's own", i, g.ID, g.At)
		}
		g.ID, g.At, want.ID, want.At = 0, time.Time{}, 0, time.Time{}
		if g != want {
			t.Errorf("entry %d: got %+v, want %+v", i, g, want)
		}
	}
}

func testAuditPages(t *testing.T, h Harness) {
	var entries []queue.AuditEntry
	for i := range 250 {
		entries = append(entries, queue.AuditEntry{
			Actor: []string{"ada", "bob"}[i%2], Action: []string{"edit", "delete", "pause"}[i%3], JobID: int64(i % 50), Count: int64(i),
		})
	}
	audit(t, h, nil, entries...)
	for _, c := range []struct {
		filter queue.AuditFilter
		want   func(e queue.AuditEntry) bool
	}{
		{queue.AuditFilter{Limit: 1000}, func(queue.AuditEntry) bool { return true }},
		{queue.AuditFilter{Limit: 60}, func(queue.AuditEntry) bool { return true }},
		{queue.AuditFilter{}, func(queue.AuditEntry) bool { return true }},
		{queue.AuditFilter{Actor: "ada", Limit: 10}, func(e queue.AuditEntry) bool { return e.Actor == "ada" }},
		{queue.AuditFilter{Action: "pause"}, func(e queue.AuditEntry) bool { return e.Action == "pause" }},
		{queue.AuditFilter{JobID: 7, Limit: 2}, func(e queue.AuditEntry) bool { return e.JobID == 7 }},
		{queue.AuditFilter{JobID: 7, Actor: "bob", Action: "delete"}, func(e queue.AuditEntry) bool {
			return e.JobID == 7 && e.Actor == "bob" && e.Action == "delete"
		}},
		{queue.AuditFilter{Actor: "eve"}, func(queue.AuditEntry) bool { return false }},
	} {
		var want, got []int64
		for i := len(entries) - 1; i >= 0; i-- {
			if c.want(entries[i]) {
				want = append(want, entries[i].Count)
			}
		}
		for f, more := c.filter, true; more && len(got) <= len(entries); more = f.Before != 0 {
			var page []queue.AuditEntry
			page, f.Before = auditLog(t, h, f)
			most := f.Limit
			if most == 0 {
				most = 100
			}
			if len(page) > most {
				t.Fatalf("AuditLog(%+v): got %d entries", f, len(page))
			}
			for _, e := range page {
				got = append(got, e.Count)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("all pages of AuditLog(%+v): got %v, want %v", c.filter, got, want)
		}
	}
}

// testAuditInTx: an action and its entry are there together, or neither is.
func testAuditInTx(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	act := func(end func(*testing.T, Tx)) {
		t.Helper()
		tx := begin(t, h)
		cancelling.run(t, h, tx, byID(j), 1)
		audit(t, h, tx, queue.AuditEntry{Actor: "ada", Action: "cancel", JobID: j.ID, Count: 1})
		if !h.OneWriter {
			wantAudit(t, h, "before the transaction ends", queue.AuditFilter{})
		}
		end(t, tx)
	}
	act(rollback)
	wantAudit(t, h, "after a rollback", queue.AuditFilter{})
	wantStatus(t, h, "after a rollback", j.ID, queue.StatusPending)
	act(commit)
	wantAudit(t, h, "after the commit", queue.AuditFilter{JobID: j.ID}, "cancel")
	wantStatus(t, h, "after the commit", j.ID, queue.StatusCancelled)
}

func testAuditBad(t *testing.T, h Harness) {
	good := queue.AuditEntry{Actor: "ada", Action: "cancel"}
	for field, set := range map[string]func(e *queue.AuditEntry){
		"Actor":     func(e *queue.AuditEntry) { e.Actor = "" },
		"Action":    func(e *queue.AuditEntry) { e.Action = "" },
		"Selection": func(e *queue.AuditEntry) { e.Selection = strings.Repeat("x", 10_001) },
		"Reason":    func(e *queue.AuditEntry) { e.Reason = "\x00" },
		"Count":     func(e *queue.AuditEntry) { e.Count = -1 },
		"JobID":     func(e *queue.AuditEntry) { e.JobID = -1 },
	} {
		bad := good
		set(&bad)
		err := auditor(h).Audit(t.Context(), nil, good, bad)
		wantInvalid(t, fmt.Sprintf("Audit(%.100v)", bad), err, "AuditEntry."+field)
	}
	wantInvalid(t, "an action of two lines", auditor(h).Audit(t.Context(), nil, queue.AuditEntry{Actor: "ada", Action: "a\nb"}), "AuditEntry.Action")
	wantCanceled(t, "Audit", auditor(h).Audit(cancelled(t), nil, good))
	wantAudit(t, h, "after bad entries", queue.AuditFilter{})
}

func testAuditLogBad(t *testing.T, h Harness) {
	for field, f := range map[string]queue.AuditFilter{
		"Actor": {Actor: "\xff"}, "Action": {Action: "\x00"}, "JobID": {JobID: -1}, "Limit": {Limit: 1001},
	} {
		_, _, err := auditor(h).AuditLog(t.Context(), f)
		wantInvalid(t, fmt.Sprintf("AuditLog(%+v)", f), err, field)
	}
	_, _, err := auditor(h).AuditLog(cancelled(t), queue.AuditFilter{})
	wantCanceled(t, "AuditLog", err)
}
