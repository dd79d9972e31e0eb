package remote

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/queue"
)

// Options configure [New]. The zero value works with a gateway that needs no token.
type Options struct {
	// Token is sent with each request, as "Authorization: Bearer TOKEN".
	Token string
	// Client sends the requests. It must not have a Timeout below 40 s, because some requests wait on
	// the gateway. nil means a client with connections of its own.
	Client *http.Client
	// Timeout is how long the gateway may take to answer a request, beside the time that it is asked
	// to wait. After that the next gateway is asked. 0 means 10 s.
	Timeout time.Duration
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload]. The gateway may
	// accept less.
	MaxPayload int
}

// Queue is a [queue.Queue] whose jobs are behind gateways. [New] makes one. It is safe for
// concurrent use, and starts no goroutines.
//
// Of the optional interfaces of package driver it has [driver.Waiter], [driver.Checker],
// [driver.Inspector], [driver.ResultKeeper], [driver.Canceller], [driver.Fleet] and
// [driver.DeathTeller]. The gateway's backend must have them as well. Other actions on jobs need a
// connection to the database. Expired jobs are reclaimed by the gateways, and by workers beside
// them.
type Queue struct {
	options  Options
	client   *http.Client
	gateways []*gateway
	first    atomic.Int64 // index of the gateway to ask first

	mu       sync.Mutex
	sleepers map[string]*sleeper // by worker
}

var _ queue.Queue = (*Queue)(nil)

// gateway is one of the URLs.
type gateway struct {
	url   string
	named atomic.Value // a string: as the gateway has named itself in its last answer

	silent atomic.Int64 // until when it is asked last, in nanoseconds since 1970; 0: it is not

	mu        sync.Mutex
	answering context.Context // ends when it has not answered in time; nil: no request has waited since
	end       context.CancelFunc
}

// name returns the gateway's name, or "" before its first answer.
func (g *gateway) name() string {
	name, _ := g.named.Load().(string)
	return name
}

// New returns a queue behind the gateways with these URLs, of which each has the same jobs.
// Requests go to one of them for as long as it answers, and then to the next. One that has not
// answered in time is asked last for a while. The error is a [*queue.InvalidError] if there is no
// URL, or one that is not of http or https. New does not connect.
func New(urls []string, o Options) (*Queue, error) {
	if len(urls) == 0 {
		return nil, &queue.InvalidError{Field: "urls", Problem: "empty: name at least one gateway"}
	}
	q := &Queue{options: o, client: o.Client, sleepers: make(map[string]*sleeper)}
	for i, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
			return nil, &queue.InvalidError{Field: fmt.Sprintf("urls[%d]", i), Problem: "not of the form https://host/prefix", Err: err}
		}
		q.gateways = append(q.gateways, &gateway{url: strings.TrimSuffix(text, "/")})
	}
	q.options.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if q.client == nil {
		q.client = &http.Client{Transport: newTransport(), CheckRedirect: refuseRedirect}
	}
	return q, nil
}

// refuseRedirect keeps the token from being sent elsewhere.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newTransport returns a transport that notices dead gateways soon.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}
