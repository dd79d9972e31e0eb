package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

const (
	fleetSecret = "fleet-secret-0123456789"
	shopSecret  = "shop-secret-0123456789"
)

// gatewayProcess is a process of errand gateway with TLS.
type gatewayProcess struct {
	*webProcess
	tokens, cert, key string // files
	roots             *x509.CertPool
}

func startGateway(t *testing.T, database string, args ...string) *gatewayProcess {
	t.Helper()
	dir := t.TempDir()
	g := &gatewayProcess{tokens: filepath.Join(dir, "tokens.json"), cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), roots: x509.NewCertPool()}
	g.writeCert(t, "first")
	g.writeTokens(t, tokensOf(shopSecret))
	args = append([]string{"gateway", "--addr", "127.0.0.1:0", "--tokens", g.tokens, "--tls-cert", g.cert, "--tls-key", g.key}, args...)
	g.webProcess = startServer(t, database, args...)
	return g
}

// tokensOf returns the text of a file of tokens. Each secret is one of the client shop.
func tokensOf(secrets ...string) string {
	list := []string{`{"name": "fleet", "secret": "` + fleetSecret + `", "queues": ["*"], "may": ["work"]}`}
	for _, s := range secrets {
		list = append(list, `{"name": "shop", "secret": "`+s+`", "queues": ["orders"], "may": ["enqueue", "read"]}`)
	}
	return "{\"tokens\": [\n" + strings.Join(list, ",\n") + "\n]}"
}

func (g *gatewayProcess) writeTokens(t *testing.T, text string) { writeFile(t, g.tokens, text) }

// writeFile replaces a file at once, as Kubernetes does.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// writeCert writes a new certificate for 127.0.0.1, which the clients trust.
func (g *gatewayProcess) writeCert(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	g.roots.AppendCertsFromPEM([]byte(text))
	writeFile(t, g.cert, text)
	writeFile(t, g.key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// client returns an HTTP client that trusts the certificates written so far.
func (g *gatewayProcess) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.roots.Clone()}, ForceAttemptHTTP2: true}}
}

// ask sends a request as curl does, over a connection of its own.
func (g *gatewayProcess) ask(method, path, secret, body string) (status int, text string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.url.String()+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	c := g.client()
	defer c.CloseIdleConnections()
	answer, err := c.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

// want sends a request, and checks the status and a part of the answer.
func (g *gatewayProcess) want(status int, part, method, path, secret, body string) {
	g.t.Helper()
	if got, text := g.ask(method, path, secret, body); got != status || !strings.Contains(text, part) {
		g.t.Errorf("%s %s: %d %s, want %d and %q", method, path, got, text, status, part)
	}
}

// hangUp has the process look at its files, and waits until it has said so.
func (g *gatewayProcess) hangUp(want string) {
	g.t.Helper()
	before := strings.Count(g.problems(), want)
	if err := g.process.Signal(syscall.SIGHUP); err != nil {
		g.t.Fatal(err)
	}
	g.await(want, func() bool { return strings.Count(g.problems(), want) > before })
}

func (g *gatewayProcess) await(what string, done func() bool) {
	g.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("waited 20 s for %q: %s", what, g.problems())
		}
	}
}

// TestGateway: errand gateway serves workers and enqueuers over TLS, takes new secrets and
// certificates while they work, and drains when it is told to end.
func TestGateway(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	for _, b := range clitest.Backends {
		t.Run(b.Name, func(t *testing.T) {
			skipPgBouncer(t, b.Name)
			t.Parallel()
			database := b.URL(t, t.TempDir())
			clitest.OpenWithJobs(t, database, 0)
			g := startGateway(t, database, "--drain-wait", "20s")
			testAnswers(g)
			testRotation(t, g)
			testCertificate(t, g)
			testGatewayDrain(t, g)
			for _, secret := range []string{fleetSecret, shopSecret} {
				if strings.Contains(g.problems(), secret) {
					t.Errorf("the log has a secret: %s", g.problems())
				}
			}
		})
	}
}

// testAnswers: each client may do what its token says, and probes need none.
func testAnswers(g *gatewayProcess) {
	const job = `{"jobs": [{"queue": "orders", "kind": "greet"}]}`
	g.want(http.StatusOK, "live", "GET", "/live", "", "")
	g.want(http.StatusOK, "ready", "GET", "/ready", "", "")
	g.want(http.StatusUnauthorized, "unauthenticated", "POST", "/v1/enqueue", "", job)
	g.want(http.StatusForbidden, "may not", "POST", "/v1/enqueue", fleetSecret, job)
	g.want(http.StatusForbidden, "jobs[0].queue", "POST", "/v1/enqueue", shopSecret, `{"jobs": [{"queue": "other", "kind": "greet"}]}`)
	g.want(http.StatusOK, `"id":`, "POST", "/v1/enqueue", shopSecret, job)
	g.want(http.StatusOK, `"kind":"greet"`, "POST", "/v1/claim", fleetSecret, `{"queues": ["orders"], "worker": "me", "lease_ns": 60000000000}`)
}

// testRotation: while a worker works and a client enqueues, the client's secret changes, and a bad
// file comes between. No call fails, each job runs, and the old secret is refused in the end.
func testRotation(t *testing.T, g *gatewayProcess) {
	const jobs = 60
	newSecret := shopSecret + "-new"
	var mu sync.Mutex
	ran := make(map[string]int)
	ctx, stop := context.WithCancel(t.Context())
	backend, err := remote.New([]string{g.url.String()}, remote.Options{Token: fleetSecret, Client: g.client()})
	if err != nil {
		t.Fatal(err)
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		err := engine.Worker{
			Backend: backend, Queues: []string{"orders"}, Logger: slog.New(slog.DiscardHandler),
			Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
				mu.Lock()
				defer mu.Unlock()
				ran[string(job.Payload)]++
				return nil
			}),
		}.Run(ctx)
		if err != nil {
			t.Error(err)
		}
	})
	enqueue := func(secret string, from, to int) {
		q, err := remote.New([]string{g.url.String()}, remote.Options{Token: secret, Client: g.client()})
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			if err := q.Enqueue(ctx, nil, &queue.Job{Queue: "orders", Kind: "k", Payload: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	enqueue(shopSecret, 0, jobs/3)
	g.writeTokens(t, tokensOf(shopSecret, newSecret))
	g.hangUp("new tokens taken")
	enqueue(shopSecret, jobs/3, jobs/2)
	enqueue(newSecret, jobs/2, jobs)
	g.writeTokens(t, strings.Replace(tokensOf(newSecret), `"enqueue"`, `"enqeue"`, 1))
	g.hangUp("tokens.json:3: tokens[1].may: ")
	g.want(http.StatusOK, "counts", "GET", "/v1/counts", shopSecret, "") // the old file stays
	g.writeTokens(t, tokensOf(newSecret))
	g.await("the change to be seen without a signal", func() bool {
		status, _ := g.ask("GET", "/v1/counts", shopSecret, "")
		return status == http.StatusUnauthorized
	})
	g.want(http.StatusOK, "counts", "GET", "/v1/counts", newSecret, "")
	g.await("all jobs to run", func() bool { mu.Lock(); defer mu.Unlock(); return len(ran) == jobs })
	stop()
	worker.Wait()
	for payload, n := range ran {
		if n != 1 {
			t.Errorf("job %s has run %d times", payload, n)
		}
	}
}

// testCertificate: a new certificate is served once both of its files are there.
func testCertificate(t *testing.T, g *gatewayProcess) {
	served := func() string {
		conn, err := tls.Dial("tcp", g.url.Host, &tls.Config{RootCAs: g.roots, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if p := conn.ConnectionState().NegotiatedProtocol; p != "h2" {
			t.Errorf("it speaks %q, want h2", p)
		}
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	oldKey, err := os.ReadFile(g.key)
	if err != nil {
		t.Fatal(err)
	}
	g.writeCert(t, "second")
	newKey, err := os.ReadFile(g.key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, g.key, string(oldKey))
	g.hangUp("new certificate not taken")
	if name := served(); name != "first" {
		t.Errorf("with half of a new certificate it serves %q", name)
	}
	writeFile(t, g.key, string(newKey))
	g.hangUp("new certificate taken")
	if name := served(); name != "second" {
		t.Errorf("it serves %q, want the new certificate", name)
	}
}

// testGatewayDrain: after SIGTERM a client that waits is sent away, and what a worker holds can be
// settled. A second SIGTERM ends the process at once.
func testGatewayDrain(t *testing.T, g *gatewayProcess) {
	g.writeTokens(t, tokensOf(shopSecret))
	g.hangUp("new tokens taken")
	g.want(http.StatusOK, `"id":`, "POST", "/v1/enqueue", shopSecret, `{"jobs": [{"queue": "orders", "kind": "last"}]}`)
	_, text := g.ask("POST", "/v1/claim", fleetSecret, `{"queues": ["orders"], "worker": "me", "lease_ns": 60000000000}`)
	var id, fence int64
	if _, err := fmt.Sscanf(after(text, `"id":`), "%d", &id); err != nil {
		t.Fatal(err, text)
	}
	if _, err := fmt.Sscanf(after(text, `"fence":`), "%d", &fence); err != nil {
		t.Fatal(err, text)
	}
	waited := make(chan string, 1)
	go func() {
		status, text := g.ask("POST", "/v1/claim", fleetSecret, `{"queues": ["none"], "worker": "waits", "lease_ns": 60000000000, "wait_ns": 30000000000}`)
		waited <- fmt.Sprint(status, " ", text)
	}()
	if err := g.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if answer := <-waited; !strings.HasPrefix(answer, "503 ") || !strings.Contains(answer, "draining") {
		t.Errorf("a client that waits got %s", answer)
	}
	g.want(http.StatusServiceUnavailable, "about to end", "GET", "/ready", "", "")
	g.want(http.StatusOK, "live", "GET", "/live", "", "")
	g.want(http.StatusOK, `"lost":[]`, "POST", "/v1/settle", fleetSecret, fmt.Sprintf(`{"outcomes": [{"id": %d, "fence": %d, "worker": "me", "action": "done"}]}`, id, fence))
	began := time.Now()
	if err := g.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code := <-g.exited
	g.exited <- code
	if code != -1 || time.Since(began) > 10*time.Second { // killed by the signal
		t.Errorf("after a second SIGTERM: exit code %d after %v", code, time.Since(began))
	}
}

// after returns what follows mark in text.
func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

// TestGatewayEnds: told to end once, it exits with 0, and a worker that holds a job settles it
// meanwhile. Tokens may come from the environment.
func TestGatewayEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	t.Setenv("ERRAND_GATEWAY_TOKENS", strings.Replace(tokensOf(shopSecret), `"secret": "`+fleetSecret+`"`, `"secret_env": "FLEET_SECRET"`, 1))
	t.Setenv("FLEET_SECRET", fleetSecret)
	database := clitest.Backends[0].URL(t, t.TempDir())
	d := clitest.OpenWithJobs(t, database, 1)
	g := &gatewayProcess{webProcess: startServer(t, database, "gateway", "--addr", "127.0.0.1:0", "--drain-wait", "1s", "--log", "json", "-q")}
	begins, ends := make(chan bool), make(chan bool)
	backend, err := remote.New([]string{g.url.String()}, remote.Options{Token: fleetSecret})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		_ = engine.Worker{Backend: backend, Logger: slog.New(slog.DiscardHandler), Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
			begins <- true
			<-ends
			return nil
		})}.Run(ctx)
	})
	<-begins
	if err := g.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	g.await("draining", func() bool { return strings.Contains(g.problems(), `"msg":"errand: gateway: draining"`) })
	ends <- true
	code := <-g.exited
	g.exited <- code
	if code != cli.ExitDone || !strings.Contains(g.problems(), `"msg":"errand: gateway: ended"`) {
		t.Errorf("exit code %d: %s", code, g.problems())
	}
	if status := jobStatus(t, d, 1); status != queue.StatusCompleted {
		t.Errorf("the job is %s", status)
	}
	stop()
	worker.Wait()
}
