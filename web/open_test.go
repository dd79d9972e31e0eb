package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// TestOpen: an encrypted payload is opened for people who may see payloads and ask for them, and
// that is audited. For others Open is not called. A payload that does not open is shown as it is
// stored, and why.
func TestOpen(t *testing.T) {
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: middleware.Keys{"k1": make([]byte, 32)}, Current: "k1"})
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	o := web.Options{Open: func(job *queue.Job) (*queue.Job, error) {
		opened++
		return secret.Open(job)
	}}
	s := newSite(t, o)
	encrypted := &queue.Job{Kind: "a", Payload: json.RawMessage(`{"card":"4111-secret"}`)}
	if err := queue.ChainEnqueuer(s.q, secret.Enqueuer).Enqueue(t.Context(), nil, encrypted); err != nil {
		t.Fatal(err)
	}
	s.enqueue(&queue.Job{Kind: "a", Payload: json.RawMessage(`{"plain":"tick"}`)})

	o.Authorize = web.Everyone(web.Operator)
	watcher := siteOf(t, s.q, o)
	for _, page := range []string{"jobs/1", "jobs/1?values=1", "jobs/1/payload"} {
		if a := watcher.get(page); strings.Contains(a.body, "4111") {
			t.Errorf("%s shows a value to a watcher:\n%s", page, a.body)
		}
	}
	s.want("jobs/1")
	if opened != 0 || strings.Contains(s.log.String(), "show-values") {
		t.Errorf("opened %d payloads that nobody has asked for", opened)
	}

	s.want("jobs/1?values=1", "4111-secret")
	if a := s.get("jobs/1/payload"); a.status != http.StatusOK || a.body != `{"card":"4111-secret"}` {
		t.Errorf("the payload: %d %q", a.status, a.body)
	}
	if log := s.log.String(); !strings.Contains(log, "jobs.show-values") || !strings.Contains(log, "jobs.download") {
		t.Errorf("the log does not say who has seen values:\n%s", log)
	}
	s.want("jobs/2?values=1", "Open has failed: middleware: the payload is not encrypted", "tick")
	if a := s.get("jobs/2/payload"); a.body != `{"plain":"tick"}` {
		t.Errorf("the payload that does not open: %d %q", a.status, a.body)
	}
}
