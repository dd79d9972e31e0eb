package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// evilHost is a name that the browser resolves to 127.0.0.1, as after an attack by DNS rebinding.
const evilHost = "evil.test"

// TestRebinding: a website whose name resolves to this machine reads nothing from errand web and
// changes nothing, even if it knows the token. The real address works in the same browser.
func TestRebinding(t *testing.T) {
	b := newTab(t)
	server := startErrandWeb(t)
	attacker := *server
	attacker.Host = evilHost + ":" + server.Port()

	b.open(attacker.String())
	if got := eval[string](b, "location.hostname + document.body.innerText"); !strings.HasPrefix(got, evilHost+"errand web answers to localhost") {
		t.Fatalf("the browser shows %q", got)
	}
	for _, path := range []string{"", "jobs", "jobs/1", "assets/errand.css"} {
		if got := eval[string](b, fmt.Sprintf("fetch(%q).then(async r => r.status + (await r.text()))", path)); !strings.HasPrefix(got, "421") || strings.Contains(got, "shop.order") {
			t.Errorf("%s: the website reads %s", path, got)
		}
	}
	if got := eval[int](b, "fetch('jobs/1/cancel', {method: 'POST'}).then(r => r.status)"); got != 421 {
		t.Errorf("the website's action: %d", got)
	}
	// The same from the website to the real address: the browser says where the form comes from.
	b.do(fmt.Sprintf("const f = document.createElement('form'); f.method = 'post'; f.action = %q; document.body.append(f); f.submit()", server.JoinPath("jobs/1/cancel")))
	b.until("the form's answer", "location.hostname == '127.0.0.1' && document.readyState == 'complete'")
	if got := eval[string](b, "document.body.innerText"); !strings.Contains(got, "different origin") {
		t.Errorf("the website's form: %s", got)
	}

	b.open(server.JoinPath("jobs/1").String())
	if got := eval[string](b, "document.body.innerText"); !strings.Contains(got, "shop.order") || !strings.Contains(got, "pending") {
		t.Errorf("the job is %s", got)
	}
	b.do(`document.querySelector('form[action$="cancel"]').requestSubmit()`)
	b.until("the job is cancelled", "document.body.innerText.includes('cancelled')")
	b.wantClean()
}

// startErrandWeb builds errand, puts a job into a new file, and serves it.
func startErrandWeb(t *testing.T) *url.URL {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "errand")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../cmd/errand"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	errand := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "ERRAND_DATABASE_URL=sqlite:"+filepath.Join(dir, "queue.db"))
		return cmd
	}
	for _, args := range [][]string{{"migrate", "up", "--create"}, {"enqueue", "shop.order"}} {
		if out, err := errand(args...).CombinedOutput(); err != nil {
			t.Fatalf("errand %v: %v: %s", args, err, out)
		}
	}
	serving := errand("web")
	serving.Cancel = func() error { return serving.Process.Signal(os.Interrupt) }
	serving.WaitDelay = 20 * time.Second
	out, err := serving.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = serving.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return address
}
