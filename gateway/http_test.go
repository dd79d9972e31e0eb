package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// http2 is a server that speaks only HTTP/2, and its client.
type http2 struct {
	*testing.T
	url           string
	client        *http.Client
	begun, ended  atomic.Int64 // requests
	otherVersions atomic.Int64 // requests of other versions of HTTP
}

// serveHTTP2 serves h over TLS, or over connections that are not encrypted (h2c).
func serveHTTP2(t *testing.T, h http.Handler, isTLS bool) *http2 {
	t.Helper()
	s := &http2{T: t}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			s.otherVersions.Add(1)
		}
		s.begun.Add(1)
		defer s.ended.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	if isTLS {
		server.EnableHTTP2 = true
		server.StartTLS()
		s.url, s.client = server.URL, server.Client()
		return s
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = protocols
	server.Start()
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	s.url, s.client = server.URL, &http.Client{Transport: transport}
	return s
}

// claim waits for a job, for as long as the gateway lets a client wait.
func (s *http2) claim(ctx context.Context, worker string) (jobs []wire.Claimed, err error) {
	r := request(ctx, http.MethodPost, s.url+"/v1/claim", claimOne(worker, time.Minute))
	r.RequestURI = ""
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var a wire.ClaimAnswer
	err = json.NewDecoder(answer.Body).Decode(&a)
	return a.Jobs, err
}

// await waits until n has come to want: for less time than a claim waits.
func (s *http2) await(what string, n *atomic.Int64, want int64) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); n.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: got %d, want %d", what, n.Load(), want)
		}
	}
}

// TestHTTP2: the API works over HTTP/2, with TLS and without. Clients that wait, more than one
// connection takes, keep no other request waiting, and one that hangs up ends only its own.
func TestHTTP2(t *testing.T) {
	for name, isTLS := range map[string]bool{"TLS": true, "h2c": false} {
		t.Run(name, func(t *testing.T) {
			h := open(t, memory.New(memory.Options{}), gateway.Options{})
			t.Cleanup(h.Close)
			testHTTP2(t, serveHTTP2(t, h, isTLS))
		})
	}
}

func testHTTP2(t *testing.T, s *http2) {
	const leaving = 300
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	for i := range leaving {
		clients.Go(func() { _, _ = s.claim(ctx, fmt.Sprint("leaving", i)) })
	}
	s.await("clients that wait", &s.begun, leaving)
	claimed := make(chan []wire.Claimed, 1)
	clients.Go(func() {
		jobs, err := s.claim(t.Context(), "staying")
		if err != nil {
			t.Error(err)
		}
		claimed <- jobs
	})
	s.await("clients that wait", &s.begun, leaving+1)
	hangUp()
	s.await("clients that have hung up", &s.ended, leaving)
	q, err := remote.New([]string{s.url}, remote.Options{Token: secret, Client: s.client})
	if err != nil {
		t.Fatal(err)
	}
	job := &queue.Job{Queue: "q", Kind: "k"}
	if err := q.Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}
	if jobs := <-claimed; len(jobs) != 1 || jobs[0].ID != job.ID || jobs[0].Attempt != 1 {
		t.Errorf("the client that still waits: got %+v, want job %d in its first attempt", jobs, job.ID)
	}
	if n := s.otherVersions.Load(); n > 0 {
		t.Errorf("%d requests not over HTTP/2", n)
	}
}

// pipes are connections within a synctest bubble.
type pipes struct {
	conns chan net.Conn
	ended context.Context
	end   context.CancelFunc
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return new(net.TCPAddr) }

// dial connects to the server, and sends text.
func (p *pipes) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
	return client
}

// servePipes serves h over pipes until the test ends.
func servePipes(t *testing.T, h http.Handler) *pipes {
	p := &pipes{conns: make(chan net.Conn)}
	p.ended, p.end = context.WithCancel(t.Context())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(p) }() // it ends with Close
	t.Cleanup(func() { server.Close() })
	return p
}

// claimHead is the head of a claim whose body has so many bytes.
func claimHead(length int) string {
	return fmt.Sprintf("POST /v1/claim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", secret, length)
}

// TestSlowloris: a client that sends a byte a second is cut off: by the gateway after 30 s if it is
// the body, and by a server with ReadHeaderTimeout if it is the head.
func TestSlowloris(t *testing.T) {
	for name, c := range map[string]struct {
		head, answer string
		within       time.Duration
	}{
		"head": {"POST /v1/claim HTTP/1.1\r\nX: ", "", 5 * time.Second},
		"body": {claimHead(1000), "HTTP/1.1 400 ", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, memory.New(memory.Options{}), gateway.Options{})
				t.Cleanup(h.Close)
				begun := time.Now()
				conn := servePipes(t, h).dial(t, c.head)
				var drip sync.WaitGroup
				defer drip.Wait()
				defer conn.Close()
				drip.Go(func() {
					for err := error(nil); err == nil; time.Sleep(time.Second) {
						_, err = conn.Write([]byte(" "))
					}
				})
				answer, err := io.ReadAll(conn)
				if took := time.Since(begun); err != nil || !strings.HasPrefix(string(answer), c.answer) || took < c.within || took > c.within+time.Second {
					t.Errorf("got %q and error %v after %v; want %q after %v", answer, err, took, c.answer, c.within)
				}
			})
		})
	}
}

// TestUnreadAnswer: a client that does not read its answer is cut off after 30 s, and its job is
// released without an attempt.
func TestUnreadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		h := open(t, q, gateway.Options{})
		t.Cleanup(h.Close)
		enqueue(t, q, "k")
		const body = `{"queues": ["q"], "worker": "w", "lease_ns": 600000000000}`
		conn := servePipes(t, h).dial(t, claimHead(len(body))+body)
		defer conn.Close()
		synctest.Wait()
		req := queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "next"}
		if jobs, err := q.Claim(t.Context(), req); len(jobs) != 0 || err != nil {
			t.Fatalf("before the answer is read: %d jobs, error %v; want none", len(jobs), err)
		}
		time.Sleep(31 * time.Second)
		if jobs, err := q.Claim(t.Context(), req); len(jobs) != 1 || err != nil || jobs[0].Attempt != 1 {
			t.Errorf("after 31 s: got %+v, error %v; want the job in its first attempt", jobs, err)
		}
	})
}
