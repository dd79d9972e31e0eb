package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// request is one call of the API.
type request struct {
	*http.Request
	h      *Handler
	w      http.ResponseWriter
	access Access
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set(wire.HeaderGateway, h.name)
	if !strings.HasPrefix(r.URL.Path, "/") { // StripPrefix("/errand/", h)
		r = withPath(r, "/"+r.URL.Path)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(transferTimeout)) // not every ResponseWriter can
	if r.URL.Path != path.Clean(r.URL.Path) {                                          // ServeMux would redirect to a path without the prefix
		writeError(w, errNoPath)
		return
	}
	route, pattern := h.mux.Handler(r)
	if pattern != "" {
		h.mux.ServeHTTP(w, r)
		return
	}
	h.refusePath(w, r, route)
}

// errNoPath is the answer for a path that the API does not have.
var errNoPath = failed(wire.CodeNotFound, "no such path: see /openapi.json")

// withPath returns r with a different path.
func withPath(r *http.Request, to string) *http.Request {
	clone := *r
	clone.URL = new(url.URL)
	*clone.URL = *r.URL
	clone.URL.Path, clone.URL.RawPath = to, ""
	return &clone
}

// refusePath answers a request that no route is for. fallback is the answer of the ServeMux, which
// knows the methods of a path.
func (h *Handler) refusePath(w http.ResponseWriter, r *http.Request, fallback http.Handler) {
	probe := &headerOnly{header: make(http.Header)}
	fallback.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		writeError(w, failed(wire.CodeMethod, "%s is not for this path: use %s", r.Method, allow))
		return
	}
	writeError(w, errNoPath)
}

// headerOnly is a ResponseWriter that keeps the headers.
type headerOnly struct{ header http.Header }

func (w *headerOnly) Header() http.Header         { return w.header }
func (w *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w *headerOnly) WriteHeader(int)             {}

// serve returns the handler of a route.
func (h *Handler) serve(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		q := &request{Request: hr, h: h, w: w}
		isToken := !h.tokenAccess(hr).isZero()
		answer, err := q.answer(r)
		claim, isGiver := answer.(giver)
		if err == nil && isGiver {
			if err = context.Cause(q.Context()); err == nil && isToken && h.tokenAccess(hr).May&r.need != r.need {
				err = errNoToken // its time was over while the client waited
			}
			if err != nil { // nobody reads the answer any more, or may
				claim.giveBack()
			}
		}
		if err != nil {
			q.fail(err)
			return
		}
		if q.write(answer) != nil && isGiver {
			claim.giveBack()
		}
	})
}

// errNoToken is the answer for a client that nobody knows.
var errNoToken = failed(wire.CodeToken, "send a token that this gateway knows as Authorization: Bearer TOKEN")

// giver is an answer that has to be taken back if the client does not get it.
type giver interface{ giveBack() }

// answer authorizes the request and calls the route's function.
func (q *request) answer(r route) (any, error) {
	if !r.isOpen {
		if q.access = q.h.accessOf(q.Request); q.access.isZero() {
			return nil, errNoToken
		}
		if err := q.access.check(); err != nil {
			return nil, err
		}
		perSecond := cmp.Or(q.access.MaxRequests, q.h.options.MaxRequests)
		if err := q.h.rates.requests.take(q.access.Name, "requests", 1, perSecond, r.credit()); err != nil {
			return nil, err
		}
		if q.access.May&r.need != r.need {
			return nil, failed(wire.CodeForbidden, "%s may not %v: it may %v", q.access.Name, r.need, q.access.May)
		}
	}
	if q.Method == http.MethodPost {
		q.Body = http.MaxBytesReader(q.w, q.Body, q.h.options.MaxBody)
		if media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err != nil || media != "application/json" {
			return nil, failed(wire.CodeMediaType,
				"Content-Type must be application/json: with curl use --json")
		}
	}
	return r.serve(q)
}

// read decodes the body into v, which points to a struct. The body has to arrive by the deadline
// that ServeHTTP has set. It stays set if the body has not been read to its end, because the server
// then reads the rest before it answers.
func (q *request) read(v any) error {
	text, err := io.ReadAll(&lists{Reader: q.Body, most: max(q.h.options.MaxJobs, maxNames)})
	if err != nil {
		return q.unreadable(err)
	}
	_ = http.NewResponseController(q.w).SetReadDeadline(time.Time{}) // the client may wait for long now
	if err := checkBody(text, reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return failed(wire.CodeMalformed, "the body is not of this request: see /openapi.json")
	}
	return nil
}

// maxEcho is how much of what a client has sent an error repeats, in characters.
const maxEcho = 40

// unreadable returns what the client is told of a body that cannot be read.
func (q *request) unreadable(err error) error {
	if tooMany, ok := errors.AsType[*apiError](err); ok {
		return tooMany
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		e := failed(wire.CodeTooLarge, "the body is longer than %d bytes", tooLong.Limit)
		e.Field = "body"
		return e
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return failed(wire.CodeMalformed, "the body has not arrived within %v", transferTimeout)
	}
	return failed(wire.CodeMalformed, "the body has ended early")
}

// checkLength returns an error if a list of the request has too many elements, or none.
func (q *request) checkLength(field string, n int) error {
	switch most := q.h.options.MaxJobs; {
	case n > most:
		e := failed(wire.CodeTooLarge, "%d elements: at most %d in one request", n, most)
		e.Field = field
		return e
	case n == 0:
		return invalid(field, "empty")
	}
	return nil
}

// checkQueue returns an error unless the client may use the queue.
func (q *request) checkQueue(field, name string) error {
	if q.access.mayUse(name) {
		return nil
	}
	e := failed(wire.CodeForbidden, "%s may not use the queue %.200q", q.access.Name, name)
	e.Field = field
	return e
}

// checkOneQueue returns an error unless the client may use the queue, or every queue if name is "".
func (q *request) checkOneQueue(name string) error {
	if name != "" || q.access.mayUseAll() {
		return q.checkQueue("queue", name)
	}
	return invalid("queue", "empty: %s may not use all queues, so name one", q.access.Name)
}

// checkWorker returns an error unless the client may use the worker's name.
func (q *request) checkWorker(field, name string) error {
	if strings.HasPrefix(name, q.access.Workers) {
		return nil
	}
	e := failed(wire.CodeForbidden, "%s may only use names of workers that begin with %q", q.access.Name, q.access.Workers)
	e.Field = field
	return e
}

// write writes an answer of status 200. The error means that the client may not get it.
func (q *request) write(answer any) error {
	text, err := q.encode(answer)
	if err != nil {
		q.fail(err)
		return err
	}
	control := http.NewResponseController(q.w)
	_ = control.SetWriteDeadline(time.Now().Add(transferTimeout)) // not every ResponseWriter can
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	q.w.Header().Set("Content-Type", "application/json")
	if _, err := q.w.Write(text); err != nil {
		return err
	}
	if err := control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil // the server sends it when the handler returns
}

// encode returns the text of an answer. The error has the code internal, and is logged.
func (q *request) encode(answer any) ([]byte, error) {
	if text, ok := answer.([]byte); ok {
		return text, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		told := failed(wire.CodeInternal, "the answer has a value that JSON cannot tell: the gateway's log has it")
		told.logged = err
		return nil, told
	}
	return b.Bytes(), nil
}

// fail answers with an error, also if the client has ended its request: it may only have closed its
// half of the connection, and must not take an empty answer for success.
func (q *request) fail(err error) {
	e := q.h.explain(err)
	if q.Context().Err() != nil && errors.Is(err, context.Cause(q.Context())) {
		e = failed(wire.CodeUnavailable, "the client has ended the request")
	}
	if e.logged != nil {
		q.h.options.Logger.Error("errand: gateway: request failed", "path", q.URL.Path, "client", q.access.Name, "error", e.logged)
	}
	writeError(q.w, e)
}

func writeError(w http.ResponseWriter, e *apiError) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	status := cmp.Or(wire.Status[e.Code], http.StatusInternalServerError)
	switch status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		seconds := (e.retryAfter + time.Second - 1) / time.Second
		header.Set("Retry-After", strconv.Itoa(max(int(seconds), 1)))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(wire.ErrorAnswer{Error: e.told}) // the client may have hung up
}

// has returns the backend's capability T. The error says that it has not.
func has[T any](q queue.Queue, name string) (T, error) {
	c, ok := driver.As[T](q)
	if !ok {
		return c, failed(wire.CodeNotSupported, "the gateway's backend is no %s", name)
	}
	return c, nil
}
