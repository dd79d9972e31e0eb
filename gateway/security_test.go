package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// TestClosedByDefault: New fails if nothing says who may use the queue, or if it says so unsafely.
func TestClosedByDefault(t *testing.T) {
	one := func(secret string, a gateway.Access) gateway.Options {
		return gateway.Options{Tokens: []gateway.Token{{Secret: secret, Access: a}}}
	}
	for field, o := range map[string]gateway.Options{
		"Options.Authorize":                {},
		"Options.Tokens[0].Secret":         one("short", gateway.Access{Queues: []string{"*"}, May: gateway.Read}),
		"Options.Tokens[0].Access.Workers": one(secret, gateway.Access{Queues: []string{"a"}, May: gateway.Settle}),
		"Options.Tokens[0].Access.Name":    one(secret, gateway.Access{Queues: []string{"a"}, May: gateway.Enqueue}),
		"Options.Tokens[1].Access.Name": {Tokens: []gateway.Token{
			{Secret: secret, Access: gateway.Access{Name: "shop", Queues: []string{"a"}, May: gateway.Enqueue}},
			{Secret: secret + "2", Access: gateway.Access{Name: "shop", Queues: []string{"b"}, May: gateway.Enqueue}},
		}},
		"Options.Tokens[1].Secret": {Tokens: append([]gateway.Token{{Secret: secret, Access: gateway.Access{Name: "reader", Queues: []string{"a"}, May: gateway.Read}}},
			everything...)},
	} {
		_, err := gateway.New(memory.New(memory.Options{}), o)
		if i, ok := errors.AsType[*queue.InvalidError](err); !ok || i.Field != field {
			t.Errorf("New without %s: got %v", field, err)
		}
	}
	a := gateway.Access{Name: "shop", Queues: []string{"a"}, May: gateway.Enqueue}
	g, err := gateway.New(memory.New(memory.Options{}), gateway.Options{Tokens: []gateway.Token{{Secret: secret, Access: a}, {Secret: secret + "2", Access: a}}})
	if err != nil {
		t.Fatalf("two secrets of one client: %v", err)
	}
	g.Close()
}

// paths are a good request for each route that needs a token.
var paths = gateway.GoodRequests()

// TestToken: without a token that the gateway knows nothing is answered but the description.
func TestToken(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{})
	defer h.Close()
	enqueue(t, q, "k")
	for route, body := range paths {
		method, path, _ := strings.Cut(route, " ")
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + secret, secret, "Bearer " + secret + "x", "Bearer " + secret[1:]} {
			r := request(t.Context(), method, path, body)
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			wantError(t, fmt.Sprintf("%s with Authorization %q", route, header), w, wire.CodeToken, "")
			if w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s without a token: no WWW-Authenticate", route)
			}
		}
		if w := send(h, method, path, body); w.Code != http.StatusOK {
			t.Errorf("%s with the token: status %d: %s", route, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("GET", "/openapi.json", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("/openapi.json without a token: status %d", w.Code)
	}
}

// TestScopes: a client may only use its operations, its queues and its names of workers.
func TestScopes(t *testing.T) {
	q := memory.New(memory.Options{})
	var access gateway.Access
	h := open(t, q, gateway.Options{Authorize: func(*http.Request) gateway.Access { return access }})
	defer h.Close()
	enqueue(t, q, "k")
	for route, body := range paths {
		if strings.HasSuffix(route, "/check") {
			continue // any known client may ask
		}
		method, path, _ := strings.Cut(route, " ")
		for o := gateway.Enqueue; o <= gateway.Cancel; o <<= 1 {
			access = gateway.Access{Name: "some", Queues: []string{gateway.AllQueues}, May: o}
			if w := send(h, method, path, body); w.Code == http.StatusOK {
				access.May = gateway.Everything &^ o
				wantError(t, fmt.Sprintf("%s without %v", route, o), send(h, method, path, body), wire.CodeForbidden, "")
			}
		}
	}
	access = gateway.Access{Name: "other", Queues: []string{"p"}, May: gateway.Everything, Workers: "other/"}
	for route, field := range map[string]string{
		"POST /v1/enqueue": "jobs[0].queue", "POST /v1/claim": "queues[0]", "POST /v1/sleep": "queues[0]", "POST /v1/wait": "queues[0]",
		"POST /v1/extend": "jobs[0].worker", "POST /v1/settle": "outcomes[0].worker", "POST /v1/progress": "progress[0].worker",
		"GET /v1/jobs?queue=q": "queue", "POST /v1/report": "queues[0]", "POST /v1/deaths": "queues[0]", "POST /v1/cancel": "queue",
	} {
		method, path, _ := strings.Cut(route, " ")
		wantError(t, route+" of another queue", send(h, method, path, paths[route]), wire.CodeForbidden, field)
	}
	wantError(t, "list of all queues", send(h, "GET", "/v1/jobs", nil), wire.CodeInvalid, "queue")
	wantError(t, "job of another queue", send(h, "GET", "/v1/jobs/1", nil), wire.CodeNotFound, "")
	wantError(t, "result of another queue", send(h, "GET", "/v1/jobs/1/result", nil), wire.CodeNotFound, "")
	if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: 9}); err != nil {
		t.Fatal(err)
	}
	for route, body := range paths {
		method, path, _ := strings.Cut(route, " ")
		if w := send(h, method, path, body); w.Code == http.StatusOK && strings.Contains(w.Body.String(), `"q"`) {
			t.Errorf("%s tells of another queue: %s", route, w.Body)
		}
	}
	wantError(t, "cancel in all queues", send(h, "POST", "/v1/cancel", wire.Selection{IDs: []int64{1}}), wire.CodeInvalid, "queue")
	wantError(t, "report of another's worker", send(h, "POST", "/v1/report", wire.ReportRequest{Name: "w"}), wire.CodeForbidden, "name")
	claim := wire.ClaimRequest{Queues: []string{"p"}, Worker: "w"}
	wantError(t, "claim under another name", send(h, "POST", "/v1/claim", claim), wire.CodeForbidden, "worker")
	access.Workers = ""
	wantError(t, "access that could settle others' jobs", send(h, "POST", "/v1/claim", claim), wire.CodeInvalid, "workers")
}

// TestBadRequests: what is wrong is named, by its field, and nothing is written.
func TestBadRequests(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{MaxBody: 10_000, MaxJobs: 3, MaxPayload: 100})
	defer h.Close()
	long := strings.Repeat("x", 101)
	for _, c := range []struct{ path, body, code, field string }{
		{"enqueue", ``, wire.CodeMalformed, ""},
		{"enqueue", `{`, wire.CodeMalformed, ""},
		{"enqueue", `[]`, wire.CodeMalformed, ""},
		{"enqueue", `{"jobs": [{"kind": "k"}]} {}`, wire.CodeMalformed, ""},
		{"enqueue", `{"jobs": [{"kind": "k"}]}x`, wire.CodeMalformed, ""},
		{"enqueue", `{"jobs": {"kind": "k"}}`, wire.CodeMalformed, "jobs"},
		{"enqueue", `{"jobs": [{"kind": 1}]}`, wire.CodeMalformed, "jobs[0].kind"},
		{"enqueue", `{"jobs": [{"kind": "k", "priority": 3000000000}]}`, wire.CodeMalformed, "jobs[0].priority"},
		{"enqueue", `{"jobs": [{"kind": "k", "dely": 1}]}`, wire.CodeMalformed, "jobs[0].dely"},
		{"enqueue", `{"jobs": [{"kind": "k", "id": 1}]}`, wire.CodeMalformed, "jobs[0].id"},
		{"enqueue", `{"jobs": []}`, wire.CodeInvalid, "jobs"},
		{"enqueue", `{}`, wire.CodeInvalid, "jobs"},
		{"enqueue", `{"jobs": [{"kind": "k"}, {"kind": ""}]}`, wire.CodeInvalid, "jobs[1].kind"},
		{"enqueue", `{"jobs": [{"kind": "k", "delay_ns": -1}]}`, wire.CodeInvalid, "jobs[0].delay_ns"},
		{"enqueue", `{"jobs": [{"kind": "k", "max_attempts": -1}]}`, wire.CodeInvalid, "jobs[0].max_attempts"},
		{"enqueue", `{"jobs": [{"kind": "k", "payload": "` + long + `"}]}`, wire.CodeInvalid, "jobs[0].payload"},
		{"enqueue", `{"jobs": [{"kind": "k", "payload": "` + strings.Repeat("x", 10_000) + `"}]}`, wire.CodeTooLarge, "body"},
		{"enqueue", `{"jobs": [{"kind":"k"},{"kind":"k"},{"kind":"k"},{"kind":"k"}]}`, wire.CodeTooLarge, "jobs"},
		{"enqueue", `{"jobs": [{"kind": "k"}], "idempotency_key": "` + strings.Repeat("x", 201) + `"}`, wire.CodeInvalid, "idempotency_key"},
		{"claim", `{"worker": "w"}`, wire.CodeInvalid, "queues"},
		{"claim", `{"queues": ["q"]}`, wire.CodeInvalid, "worker"},
		{"claim", `{"queues": ["q"], "worker": "w", "limit": -1}`, wire.CodeInvalid, "limit"},
		{"claim", `{"queues": ["q"], "worker": "w", "lease_ns": 1}`, wire.CodeInvalid, "lease_ns"},
		{"claim", `{"queues": ["q"], "worker": "w", "wait_ns": -1}`, wire.CodeInvalid, "wait_ns"},
		{"claim", `{"queues": ["q\n"], "worker": "w"}`, wire.CodeInvalid, "queues"},
		{"extend", `{"jobs": [{"id": 1, "fence": 1, "worker": "w"}], "lease_ns": 1}`, wire.CodeInvalid, "lease_ns"},
		{"settle", `{"outcomes": [{"id": 1, "fence": 1, "worker": "w", "action": "finish"}]}`, wire.CodeInvalid, "outcomes[0].action"},
		{"settle", `{"outcomes": [{"id": 1, "fence": 1, "worker": "w", "action": "retry", "output": 1}]}`, wire.CodeInvalid, "outcomes[0].output"},
		{"progress", `{"progress": [{"id": 1, "fence": 1, "worker": "w"}]}`, wire.CodeInvalid, "progress[0].value"},
	} {
		wantError(t, c.path+" "+c.body[:min(len(c.body), 80)], send(h, "POST", "/v1/"+c.path, c.body), c.code, c.field)
	}
	for query, field := range map[string]string{"limit=x": "limit", "limit=-1": "limit", "colour=red": "colour", "status=asleep": "status", "created_from=now": "created_from"} {
		wantError(t, query, send(h, "GET", "/v1/jobs?"+query, nil), wire.CodeInvalid, field)
	}
	wantError(t, "a name as ID", send(h, "GET", "/v1/jobs/x", nil), wire.CodeInvalid, "id")
	form := request(t.Context(), "POST", "/v1/enqueue", paths["POST /v1/enqueue"])
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, form)
	wantError(t, "a form", w, wire.CodeMediaType, "")
	if counts, err := q.Counts(t.Context()); err != nil || len(counts) != 0 {
		t.Errorf("after bad requests: %+v, %v; want no jobs", counts, err)
	}
}

// TestLongLists: a list that is too long is refused while it is read, before it is decoded.
func TestLongLists(t *testing.T) {
	h := open(t, memory.New(memory.Options{}), gateway.Options{MaxBody: 1 << 20})
	defer h.Close()
	for _, start := range []string{`{"jobs":[`, `{"x":"]},\"", "queues":[0], "jobs":[`} {
		body := &endless{start: strings.NewReader(start)}
		r := request(t.Context(), "POST", "/v1/enqueue", nil)
		r.Body = io.NopCloser(body)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		wantError(t, start, w, wire.CodeTooLarge, "body")
		if body.n > 100_000 {
			t.Errorf("%s0,0,0…: refused after %d bytes, want at most 100,000 for 10,000 elements", start, body.n)
		}
	}
	nested := `{"jobs": [{"kind": "k", "payload": [` + strings.Repeat("0,", 20_000) + `0]}]}`
	read[wire.EnqueueAnswer](t, send(h, "POST", "/v1/enqueue", nested))
	commas := `{"jobs": [{"kind": "k", "payload": "` + strings.Repeat(`\",`, 20_000) + `"}]}`
	read[wire.EnqueueAnswer](t, send(h, "POST", "/v1/enqueue", commas))
}

// endless is a body that never ends.
type endless struct {
	start *strings.Reader
	n     int
}

func (e *endless) Read(p []byte) (n int, err error) {
	if n, err = e.start.Read(p); err == nil {
		return n, nil
	}
	n = copy(p, strings.Repeat("0,", len(p)/2+2)[e.n%2:])
	e.n += n
	return n, nil
}

// TestLateTimes: a time that its zone puts into the year 10000 is told in UTC. Where an answer
// cannot be told, the status says so.
func TestLateTimes(t *testing.T) {
	q := late{memory.New(memory.Options{})}
	h := open(t, q, gateway.Options{})
	defer h.Close()
	at := time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "k", ScheduledAt: at}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/jobs/1", "/v1/jobs/2"} {
		w := send(h, "GET", path, nil)
		if path == "/v1/jobs/2" {
			wantError(t, "job of the year 10000", w, wire.CodeInternal, "")
		} else if got := read[wire.JobAnswer](t, w).Job.ScheduledAt; !got.Equal(at) {
			t.Errorf("job of %v: got %v", at, got)
		}
	}
}

// late tells times in a zone to the east. It has a job 2 of the year 10000.
type late struct{ *memory.Queue }

func (q late) Job(ctx context.Context, id int64) (queue.Record, bool, error) {
	r, ok, err := q.Queue.Job(ctx, id)
	r.ScheduledAt = r.ScheduledAt.In(time.FixedZone("", 3600))
	if id == 2 {
		r.ScheduledAt, ok = time.Date(10000, 1, 2, 0, 0, 0, 0, time.UTC), true
	}
	return r, ok, err
}

// TestEcho: an error does not repeat what a client has sent at length.
func TestEcho(t *testing.T) {
	h := open(t, memory.New(memory.Options{}), gateway.Options{})
	defer h.Close()
	long := strings.Repeat("1", 100_000)
	for _, job := range []string{`"priority": ` + long, `"x` + long + `": 1`, `"scheduled_at": "` + long + `"`, `"kind": ` + long} {
		w := send(h, "POST", "/v1/enqueue", `{"jobs": [{`+job+`}]}`)
		if w.Code != http.StatusBadRequest || w.Body.Len() > 500 {
			t.Errorf("%.30s…: status %d and %d bytes; want 400 and at most 500", job, w.Code, w.Body.Len())
		}
	}
}

// TestPaths: nothing but the routes is served, whatever a path looks like, also under a prefix.
func TestPaths(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{})
	defer h.Close()
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/claim/", "/V1/claim", "/v1/claimx", "/v1/jobs/1/2", "/v1/jobs/", "/v1/%63laim/x", "/v2/claim", "/*"} {
		w := send(h, "POST", path, claimOne("w", 0))
		if w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"//v1/claim", "/./v1/claim", "/x/../v1/claim", "/v1//claim", "/v1/jobs/../claim"} {
		for prefix, h := range map[string]http.Handler{"": h, "/errand": http.StripPrefix("/errand", h)} {
			w := send(h, "POST", prefix+path, claimOne("w", 0))
			wantError(t, prefix+path, w, wire.CodeNotFound, "")
			if location := w.Header().Get("Location"); location != "" {
				t.Errorf("%s: leads to %q, which is behind no prefix", prefix+path, location)
			}
		}
	}
	w := send(h, "DELETE", "/v1/claim", nil)
	wantError(t, "DELETE", w, wire.CodeMethod, "")
	if allow := w.Header().Get("Allow"); allow != "POST" {
		t.Errorf("DELETE /v1/claim: Allow is %q, want POST", allow)
	}
	for _, prefix := range []string{"/errand", "/errand/"} {
		if w := send(http.StripPrefix(prefix, h), "POST", "/errand/v1/claim", claimOne("w", 0)); w.Code != http.StatusOK {
			t.Errorf("under the prefix %s: status %d: %s", prefix, w.Code, w.Body)
		}
	}
}

// TestMaxWaiting: more clients than Options allow are refused, until one has left.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, memory.New(memory.Options{}), gateway.Options{MaxWaiting: 2})
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 2 {
			go sendIn(ctx, h, "POST", "/v1/claim", claimOne(fmt.Sprint("w", i), time.Minute))
		}
		synctest.Wait()
		w := send(h, "POST", "/v1/claim", claimOne("w", 0))
		wantError(t, "third client", w, wire.CodeTooMany, "")
		if w.Header().Get("Retry-After") == "" {
			t.Error("third client: no Retry-After")
		}
		cancel()
		synctest.Wait()
		read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 0)))
	})
}

// TestIdempotencyKey: a second request with the key gets the answer of the first and writes
// nothing.
func TestIdempotencyKey(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{})
	defer h.Close()
	ask := func(kind string, header map[string]string) *httptest.ResponseRecorder {
		r := request(t.Context(), "POST", "/v1/enqueue", wire.EnqueueRequest{Jobs: []wire.Job{{Queue: "q", Kind: kind}}})
		for name, value := range header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	key := map[string]string{"Idempotency-Key": "a"}
	w := ask("k", key)
	first := read[wire.EnqueueAnswer](t, w).Jobs[0].ID
	if again := read[wire.EnqueueAnswer](t, ask("k", key)).Jobs[0].ID; again != first {
		t.Errorf("second request with the key: job %d, want %d", again, first)
	}
	wantError(t, "the key with different jobs", ask("l", key), wire.CodeConflict, "idempotency_key")
	if other := read[wire.EnqueueAnswer](t, ask("k", nil)).Jobs[0].ID; other == first {
		t.Error("a request without the key has written nothing")
	}
	wantError(t, "a request for another gateway", ask("k", map[string]string{wire.HeaderGateway: "gateway-other"}), wire.CodeOther, "")
	own := map[string]string{wire.HeaderGateway: w.Header().Get(wire.HeaderGateway), "Idempotency-Key": "b"}
	read[wire.EnqueueAnswer](t, ask("k", own))
	if counts, err := q.Counts(t.Context()); err != nil || len(counts) != 1 || counts[0].Jobs != 3 {
		t.Errorf("after requests with keys: %+v, %v; want 3 jobs", counts, err)
	}
}

// TestCutOff: a client whose body ends early, or does not end, and one that closes its half of the
// connection while it waits, gets an error and not an empty answer.
func TestCutOff(t *testing.T) {
	h := open(t, memory.New(memory.Options{}), gateway.Options{})
	defer h.Close()
	server := httptest.NewServer(h)
	defer server.Close()
	const waits = `{"queues": ["q"], "worker": "w", "wait_ns": 30000000000}`
	for name, c := range map[string]struct {
		path, body string
		length     int
		want       string
	}{
		"a short body":     {"enqueue", `{"jobs": [{"queue": "q", "kind"`, 100, "HTTP/1.1 400 "},
		"a client's half":  {"claim", waits, len(waits), "HTTP/1.1 503 "},
		"a written job":    {"enqueue", `{"jobs": [{"queue": "r", "kind": "k"}]}`, 39, "HTTP/1.1 200 "},
		"an unknown token": {"claim?", waits[:10], len(waits), "HTTP/1.1 401 "},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		token := secret
		if strings.HasSuffix(c.path, "?") {
			token = "not the secret"
		}
		fmt.Fprintf(conn, "POST /v1/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			c.path, token, c.length, c.body)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), c.want) || !strings.Contains(string(answer), "{") {
			t.Errorf("%s: got %q, error %v; want %s and a body", name, answer, err, c.want)
		}
		conn.Close()
	}
}

// TestTwoOutcomes: a settle with two outcomes for one job is refused: only one could be recorded.
func TestTwoOutcomes(t *testing.T) {
	h := open(t, memory.New(memory.Options{}), gateway.Options{})
	defer h.Close()
	o := wire.Outcome{ID: 1, Fence: 1, Worker: "w", Action: "done"}
	other := o
	other.Action = "dead"
	wantError(t, "two outcomes", send(h, "POST", "/v1/settle", wire.SettleRequest{Outcomes: []wire.Outcome{o, other}}), wire.CodeInvalid, "outcomes[1].id")
}

// TestQueries: a query that is not understood lists nothing, instead of more than it means.
func TestQueries(t *testing.T) {
	h := open(t, memory.New(memory.Options{}), gateway.Options{})
	defer h.Close()
	for query, field := range map[string]string{
		"%zz=1": "query", "queue=q;status=dead": "query", "queue=q&queue=r": "queue", "kinds=k": "kinds", "limit=x": "limit",
	} {
		wantError(t, query, send(h, "GET", "/v1/jobs?"+query, nil), wire.CodeInvalid, field)
	}
}

// TestSlowBody: a client may take 30 s to send its body and to read its answer, and wait for
// longer.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, memory.New(memory.Options{}), gateway.Options{})
		defer h.Close()
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		begun := time.Now()
		h.ServeHTTP(w, request(t.Context(), "POST", "/v1/claim", claimOne("w", 10*time.Second)))
		if len(w.read) != 2 || w.read[0].Sub(begun) != 30*time.Second || !w.read[1].IsZero() {
			t.Errorf("deadlines for reading: got %v, want one in 30 s, and then none", w.read)
		}
		if len(w.write) != 2 || w.write[0].Sub(begun) != 40*time.Second || !w.write[1].IsZero() {
			t.Errorf("deadlines for writing: got %v, want one 30 s after the wait, and then none", w.write)
		}
	})
}

// deadlines notes the deadlines that are set for a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error  { d.read = append(d.read, at); return nil }
func (d *deadlines) SetWriteDeadline(at time.Time) error { d.write = append(d.write, at); return nil }
