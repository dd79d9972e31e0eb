package hop

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

// gateway is a server that counts the requests that it has read.
type gateway struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) == 0 {
			return
		}
		g.mu.Lock()
		g.asked = append(g.asked, r.URL.Path)
		g.mu.Unlock()
		_, _ = io.WriteString(w, "answer")
	}))
	t.Cleanup(g.Close)
	return g
}

// has reports whether the gateway gets a request of the path.
func (g *gateway) has(path string) bool {
	for range 200 {
		g.mu.Lock()
		found := slices.Contains(g.asked, path)
		g.mu.Unlock()
		if found {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func closing(t *testing.T, p *Proxy) {
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestCuts(t *testing.T) {
	g := newGateway(t)
	p, err := Listen(strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, p)
	fates := map[string]wire.Fate{"/unsent": wire.CutUnsent, "/unanswered": wire.CutUnanswered, "/answered": wire.CutAnswered}
	p.SetJudge(func(path string) wire.Fate { return fates[path] })
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	body := strings.Repeat("long ", 10_000) // in several pieces
	for _, path := range []string{"/passed", "/unsent", "/unanswered", "/answered", "/passed/again"} {
		answer, err := client.Post(p.URL()+path, "text/plain", strings.NewReader(body))
		var text []byte
		if err == nil {
			text, err = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		if isCut := fates[path] != wire.Pass; isCut != (err != nil) || !isCut && string(text) != "answer" {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
		if path != "/unsent" && !g.has(path) {
			t.Errorf("%s: the gateway has not got it", path)
		}
	}
	if slices.Contains(g.asked, "/unsent") {
		t.Error("/unsent: the gateway has got it")
	}
}

func TestRefuse(t *testing.T) {
	g := newGateway(t)
	p, err := Listen(strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, p)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func() error {
		answer, err := client.Post(p.URL()+"/", "text/plain", strings.NewReader("x"))
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	if err := p.Refuse(); err != nil {
		t.Fatal(err)
	}
	if err := post(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("refused: got %v", err)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := post(); err != nil {
		t.Errorf("resumed: got %v", err)
	}
}

func TestWaiting(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	g := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer g.Close()
	p, err := Listen(strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if answer, err := http.Get(p.URL() + "/wait"); err == nil {
			answer.Body.Close()
		}
	}()
	<-asked
	if got := p.Waiting("/wait"); got != 1 {
		t.Errorf("while it waits: got %d, want 1", got)
	}
	close(release)
	<-done
	if got := p.Waiting("/wait"); got != 0 {
		t.Errorf("after the answer: got %d, want 0", got)
	}
}
