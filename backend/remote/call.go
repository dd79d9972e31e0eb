package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/wire"
)

// call is one call of the API.
type call struct {
	operation string // for errors
	method    string
	path      string
	query     url.Values
	in        any           // the body, or nil
	out       any           // gets the answer
	wait      time.Duration // how long the gateway is asked to wait
	isForNews bool          // it only waits for news, which a different gateway has as well
	only      string        // if not "", the name of the only gateway that is to take the request
}

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 256 << 20

// do calls the gateways, beginning with the one that answered last, until one of them answers. It
// repeats calls that a gateway may have acted on, so it is not for Enqueue. For the others the
// fence decides, and the lease ends what is not heard of.
func (q *Queue) do(ctx context.Context, c call) error {
	body, err := encode(c.in)
	if err != nil {
		return fmt.Errorf("remote: %s: %w", c.operation, err)
	}
	return q.inTurn(ctx, c.operation, func(g *gateway) (sent, error) {
		outcome, err := q.ask(ctx, g, c, body)
		if outcome == unanswered {
			outcome = unsent
		}
		return outcome, err
	})
}

// inTurn calls ask for one gateway after the other, until it succeeds or says that no other gateway
// is to be asked.
func (q *Queue) inTurn(ctx context.Context, operation string, ask func(*gateway) (sent, error)) (err error) {
	for _, n := range q.order(time.Now()) {
		var outcome sent
		outcome, err = ask(q.gateways[n])
		q.noteOutcome(n, outcome, err)
		if err == nil {
			return nil
		}
		if outcome == refused {
			break
		}
		if !errors.Is(ctx.Err(), context.Canceled) { // else the caller has given up, not the gateway
			q.first.CompareAndSwap(int64(n), int64((n+1)%len(q.gateways)))
		}
		if outcome == unanswered || ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("remote: %s: %w", operation, err)
}

// sent says what is known of a request that has failed.
type sent uint8

const (
	unsent     sent = iota // the gateway has not acted on it, and a different one may
	unanswered             // the gateway may have acted on it
	refused                // the gateway has answered, and a different one would answer the same
)

// ask sends the request to one gateway. If that says that too much was sent in a second, ask waits
// for as long as the gateway says, up to the time of one request, and sends it again.
func (q *Queue) ask(ctx context.Context, g *gateway, c call, body []byte) (outcome sent, err error) {
	for left := q.options.Timeout; ; {
		outcome, err = q.askOnce(ctx, g, c, body)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != wire.CodeRate || e.RetryAfter > left {
			return outcome, err
		}
		wait := max(e.RetryAfter, time.Second)
		sleep(ctx, wait)
		left -= wait
	}
}

// askOnce sends the request to one gateway, once.
func (q *Queue) askOnce(ctx context.Context, g *gateway, c call, body []byte) (sent, error) {
	limited, cancel := context.WithTimeout(ctx, q.options.Timeout+c.wait)
	defer cancel()
	if c.isForNews {
		var release func()
		limited, release = g.untilSilent(limited)
		defer release()
	}
	var wasSent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { wasSent.Store(true) }}
	r, err := q.request(httptrace.WithClientTrace(limited, trace), g, c, body)
	if err != nil {
		return refused, err
	}
	answer, err := q.client.Do(r)
	if err == nil {
		defer answer.Body.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer)); err == nil {
			g.named.Store(answer.Header.Get(wire.HeaderGateway))
			return understand(answer, text, c.out)
		}
	}
	if ended := ctx.Err(); ended != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if wasSent.Load() {
		return unanswered, err
	}
	return unsent, err
}

// request returns the HTTP request.
func (q *Queue) request(ctx context.Context, g *gateway, c call, body []byte) (*http.Request, error) {
	target := g.url + c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, c.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+q.options.Token)
	}
	if c.only != "" {
		r.Header.Set(wire.HeaderGateway, c.only)
	}
	return r, nil
}

// encode returns the body of a request.
func encode(in any) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(in)
	return b.Bytes(), err
}

// understand reads an answer.
func understand(answer *http.Response, text []byte, out any) (sent, error) {
	status := answer.StatusCode
	if status == http.StatusOK {
		if err := json.Unmarshal(text, out); err != nil {
			return unanswered, fmt.Errorf("the answer is none of a gateway: %w", err)
		}
		return refused, nil
	}
	var told wire.ErrorAnswer
	if err := json.Unmarshal(text, &told); err != nil || told.Error.Code == "" {
		err := fmt.Errorf("HTTP status %d", status) // of a proxy before the gateway
		switch status {
		case http.StatusTooManyRequests:
			told.Error = wire.Error{Code: wire.CodeRate, Message: "a proxy before the gateway takes no more requests now"}
			return refused, errorOf(answer, told.Error)
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return unanswered, err
		}
		return refused, err
	}
	switch told.Error.Code {
	case wire.CodeDraining, wire.CodeUnavailable, wire.CodeTooMany:
		return unsent, errorOf(answer, told.Error)
	}
	return refused, errorOf(answer, told.Error)
}

// codeOf returns the code of a gateway's error, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
