package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// webProcess is a process of errand web, or of errand gateway.
type webProcess struct {
	t       *testing.T
	url     *url.URL
	process *os.Process
	exited  chan int // its exit code

	mu     sync.Mutex
	stderr bytes.Buffer
}

// startWeb starts errand web on a database.
func startWeb(t *testing.T, database string, args ...string) *webProcess {
	t.Helper()
	return startServer(t, database, append([]string{"web"}, args...)...)
}

// startServer starts a command that serves HTTP and prints its URL.
func startServer(t *testing.T, database string, args ...string) *webProcess {
	t.Helper()
	w := &webProcess{t: t, exited: make(chan int, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "errand", append([]string{"--url", database}, args...)...)
	cmd.Stderr = w
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.process = cmd.Process
	lines := bufio.NewScanner(out)
	lines.Scan()
	first := lines.Text()
	go func() {
		for lines.Scan() {
			t.Errorf("a second line on standard output: %s", lines.Text())
		}
		_ = cmd.Wait()
		w.exited <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() { cancel(); <-w.exited })
	if w.url, err = url.Parse(first); err != nil || w.url.Host == "" {
		t.Fatalf("printed %q, want a URL; %s", first, w.problems())
	}
	return w
}

// Write takes what the process writes to standard error.
func (w *webProcess) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.Write(b)
}

func (w *webProcess) problems() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.String()
}

// request sends a request to a path beneath the URL, or to an absolute path, and returns its
// answer. The header Host is sent as Host.
func (w *webProcess) request(method, path string, header ...string) (status int, location, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url.String(), strings.NewReader(""))
	if err != nil {
		w.t.Fatal(err)
	}
	if r.URL.Path += path; strings.HasPrefix(path, "/") {
		r.URL.Path = path
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Close = true
	r.Host = r.Header.Get("Host")
	answer, err := new(http.Transport).RoundTrip(r) // which follows no redirection
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Location"), string(text)
}

func jobStatus(t *testing.T, d *dburl.Database, id int64) queue.Status {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](d.Queue)
	r, _, err := inspector.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status
}

// TestWeb: errand web shows the dashboard to anyone who has its URL, and acts as the user. A forged
// Host, a wrong token and a page of another origin get nothing. It ends in order.
func TestWeb(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	for _, b := range clitest.Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			database := b.URL(t, t.TempDir())
			d := clitest.OpenWithJobs(t, database, 4)
			w := startWeb(t, database)
			testPages(t, w)
			testStrangers(t, w, d)
			testActor(t, w, d)
			testDrain(t, w, d)
		})
	}
}

// testPages: a page, the assets that it names, and the way from the URL without its last slash.
func testPages(t *testing.T, w *webProcess) {
	if host := w.url.Hostname(); host != "127.0.0.1" || len(w.url.Path) < 22 {
		t.Errorf("it serves %s, want loopback and a token", w.url)
	}
	for _, path := range []string{"", "jobs", "jobs/1", "health", "assets/errand.css"} {
		if status, _, body := w.request("GET", path); status != http.StatusOK {
			t.Errorf("%s: %d: %s", path, status, body)
		}
	}
	if _, _, body := w.request("GET", "jobs"); !strings.Contains(body, "shop.order") {
		t.Errorf("the page of jobs has no job: %s", body)
	}
	bare := strings.TrimSuffix(w.url.Path, "/")
	if status, location, _ := w.request("GET", bare); status != http.StatusPermanentRedirect || location != bare[1:]+"/" {
		t.Errorf("without the slash: %d to %q", status, location)
	}
	for _, path := range []string{"//jobs", "/./jobs", "/x/../jobs", "//", "//evil.test/jobs"} {
		if status, location, _ := w.request("GET", bare+path); status != http.StatusNotFound || location != "" {
			t.Errorf("%s: %d to %q, want no way out of the token's path", path, status, location)
		}
	}
}

// testStrangers: who has no token, or comes by another name or from another page, gets and changes
// nothing.
func testStrangers(t *testing.T, w *webProcess, d *dburl.Database) {
	port := ":" + w.url.Port()
	token := strings.Trim(w.url.Path, "/")
	for _, test := range []struct {
		path, host string
		want       int
	}{
		{"jobs", "localhost" + port, http.StatusOK},
		{"jobs", "LOCALHOST." + port, http.StatusOK},
		{"jobs", "[::1]" + port, http.StatusOK},
		{"jobs", "127.0.0.1:8080", http.StatusOK}, // the port is forwarded
		{"jobs", "evil.test" + port, http.StatusMisdirectedRequest},
		{"jobs", "evil.test", http.StatusMisdirectedRequest},
		{"jobs", "localhost.evil.test" + port, http.StatusMisdirectedRequest},
		{"jobs", "127.0.0.1.evil.test" + port, http.StatusMisdirectedRequest},
		{"jobs", "0.0.0.0" + port, http.StatusMisdirectedRequest},
		{"jobs", "192.0.2.1" + port, http.StatusMisdirectedRequest},
		{"/", "evil.test" + port, http.StatusMisdirectedRequest},
		{"/", "localhost", http.StatusForbidden},
		{"/jobs", "localhost", http.StatusForbidden},
		{"/" + token[1:] + "/jobs", "localhost", http.StatusForbidden},
		{"/" + token + "A/jobs", "localhost", http.StatusForbidden},
		{"/" + strings.ToLower(token) + "/jobs", "localhost", http.StatusForbidden},
		{"/x/../" + token + "/jobs", "localhost", http.StatusForbidden},
		{"//" + token + "/jobs", "localhost", http.StatusForbidden},
	} {
		status, location, body := w.request("GET", test.path, "Host", test.host)
		if status != test.want {
			t.Errorf("%s at %s: %d, want %d", test.path, test.host, status, test.want)
		}
		if test.want != http.StatusOK && (strings.Contains(body+location, token) || strings.Contains(body, "shop.order")) {
			t.Errorf("%s at %s tells a stranger: %s", test.path, test.host, body)
		}
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"}, // a page of another port of localhost
		{"Origin", "http://127.0.0.1:1"},
		{"Origin", "null"},
		{"Origin", "http://evil.test" + port, "Host", "evil.test" + port},
	} {
		if status, _, _ := w.request("POST", "jobs/2/cancel", header...); status < 400 {
			t.Errorf("a form with %q: %d", header, status)
		}
	}
	if status, _, _ := w.request("POST", "/jobs/2/cancel"); status != http.StatusForbidden {
		t.Errorf("a form without the token: %d", status)
	}
	if status := jobStatus(t, d, 2); status != queue.StatusPending {
		t.Errorf("job 2 is %s: a stranger has changed it", status)
	}
}

// testActor: an action is the user's in the audit log.
func testActor(t *testing.T, w *webProcess, d *dburl.Database) {
	status, location, body := w.request("POST", "jobs/2/cancel", "Origin", "http://"+w.url.Host, "Sec-Fetch-Site", "same-origin")
	if status != http.StatusSeeOther || !strings.HasPrefix(location, "../../jobs/2") || jobStatus(t, d, 2) != queue.StatusCancelled {
		t.Fatalf("cancel: %d to %q: %s", status, location, body)
	}
	auditor, _ := driver.As[driver.Auditor](d.Queue)
	list, _, err := auditor.AuditLog(t.Context(), queue.AuditFilter{})
	if err != nil || len(list) != 1 || list[0].Actor != cli.Actor() || list[0].JobID != 2 {
		t.Errorf("the audit log has %+v, %v, want one entry of %s", list, err, cli.Actor())
	}
}

// testDrain: told to end, the process answers the request that is under way, takes no other, does
// not wait for a client that sends only half of its form, and exits with 0.
func testDrain(t *testing.T, w *webProcess, d *dburl.Database) {
	conn, err := net.Dial("tcp", w.url.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	const form = "reason=last"
	fmt.Fprintf(conn, "POST %sjobs/3/cancel HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", w.url.Path, w.url.Host, len(form))
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q, %v, want 100 Continue: the action waits for the form", line, err)
	}
	if line, err := answers.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatal(line, err)
	}
	slow, err := net.Dial("tcp", w.url.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "POST %sjobs/4/cancel HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\nreason", w.url.Path, w.url.Host)
	if err := w.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		another, err := net.Dial("tcp", w.url.Host)
		if err != nil {
			break // the listener is closed
		}
		another.Close()
		if time.Now().After(end) {
			t.Fatal("it still listens, 10 s after SIGTERM")
		}
	}
	fmt.Fprint(conn, form)
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || jobStatus(t, d, 3) != queue.StatusCancelled {
		t.Errorf("the last request: %d, and job 3 is %s", answer.StatusCode, jobStatus(t, d, 3))
	}
	code := <-w.exited
	w.exited <- code
	if code != cli.ExitDone {
		t.Errorf("exit code %d, want %d: %s", code, cli.ExitDone, w.problems())
	}
}

// TestWebFlags: --read-only, --host, and addresses that other machines reach.
func TestWebFlags(t *testing.T) {
	database := clitest.Backends[0].URL(t, t.TempDir())
	d := clitest.OpenWithJobs(t, database, 1)

	w := startWeb(t, database, "--read-only", "--addr", "localhost:0")
	if status, _, _ := w.request("POST", "jobs/1/cancel", "Sec-Fetch-Site", "same-origin"); status != http.StatusForbidden || jobStatus(t, d, 1) != queue.StatusPending {
		t.Errorf("an action with --read-only: %d", status)
	}

	w = startWeb(t, database, "--remote", "--addr", "0.0.0.0:0", "--host", "Ops.example.com,other", "--host", "my_host-1.,192.0.2.1,[2001:db8::1]")
	if w.url.Hostname() != "ops.example.com" {
		t.Errorf("the URL is %s, want one with the name of --host", w.url)
	}
	w.url.Host = "127.0.0.1:" + w.url.Port()
	for host, want := range map[string]int{"ops.example.com": http.StatusOK, "other:80": http.StatusOK, "my_host-1": http.StatusOK,
		"192.0.2.1": http.StatusOK, "[2001:db8::1]:80": http.StatusOK, "0.0.0.0": http.StatusMisdirectedRequest} {
		if status, _, _ := w.request("GET", "jobs", "Host", host); status != want {
			t.Errorf("Host %s: %d, want %d", host, status, want)
		}
	}

	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"--addr", ":0"}, cli.ExitRefused},
		{[]string{"--addr", "0.0.0.0:0"}, cli.ExitRefused},
		{[]string{"--addr", "192.0.2.1:0"}, cli.ExitRefused},
		{[]string{"--addr", "127.0.0.1"}, cli.ExitUsage},
		{[]string{"--addr", w.url.Host}, cli.ExitFailed}, // it is taken
		{[]string{"--host", "http://ops.example.com"}, cli.ExitUsage},
		{[]string{"--host", "ops.example.com:80"}, cli.ExitUsage},
		{[]string{"--host", "*"}, cli.ExitUsage},
		{[]string{"--host", "*.example.com"}, cli.ExitUsage},
		{[]string{"--host", "user@h?x"}, cli.ExitUsage},
		{[]string{"--host", "h#x"}, cli.ExitUsage},
		{[]string{"--host", "ops..example.com"}, cli.ExitUsage},
		{[]string{"--host", "ops.example.com,"}, cli.ExitUsage},
		{[]string{"--host", "-"}, cli.ExitUsage},
		{[]string{"--url", "sqlite:" + t.TempDir() + "/missing.db"}, cli.ExitFailed},
	} {
		var out, problems bytes.Buffer
		a := &cli.App{Out: &out, Err: &problems, Getenv: clitest.Env(database)}
		if code := run(t.Context(), a, append([]string{"web"}, test.args...)); code != test.code || out.Len() > 0 {
			t.Errorf("%v: exit code %d, want %d: %s%s", test.args, code, test.code, &out, &problems)
		}
	}
}
