// Package hop is a network between HTTP clients and a gateway that a scenario can break: a proxy
// that cuts connections before a request, before its answer, or instead of its answer. It runs in
// the parent's process, so it survives the gateway. It passes bytes on as they come, and relies on
// clients that send a request only after they have read the answer to the last one, as those of
// HTTP/1.1 do.
package hop

import (
	"bytes"
	"errors"
	"net"
	"sync"

	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

// Judge decides the fate of a request by its path: one of wire.Pass, CutUnsent, CutUnanswered and
// CutAnswered. Goroutines of several connections call it, one at a time.
type Judge func(path string) wire.Fate

// Proxy passes requests on to a gateway, and answers back.
type Proxy struct {
	gateway string
	address string
	conns   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while it refuses connections
	closed   bool
	open     map[*conn]struct{}
	judge    Judge
}

// Listen returns a proxy for the gateway at an address. The gateway may start later.
func Listen(gateway string) (*Proxy, error) {
	p := &Proxy{gateway: gateway, address: "127.0.0.1:0", open: make(map[*conn]struct{})}
	return p, p.Resume()
}

// URL returns the URL of the gateway for clients. It stays the same.
func (p *Proxy) URL() string { return "http://" + p.address }

// SetJudge sets the judge from now on. nil passes everything on.
func (p *Proxy) SetJudge(j Judge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = j
}

// Refuse refuses new connections from now on, as the machine of a dead process does. The
// connections that there are end with those to the gateway.
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.listener.Close()
	p.listener = nil
	return err
}

// Resume takes connections again after Refuse.
func (p *Proxy) Resume() error {
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.address = listener, listener.Addr().String()
	p.conns.Go(func() { p.serve(listener) })
	return nil
}

// Waiting returns how many requests of a path have no answer yet.
func (p *Proxy) Waiting(path string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if c.asks && c.path == path {
			n++
		}
	}
	return n
}

// Close ends all connections.
func (p *Proxy) Close() (err error) {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		err = p.listener.Close()
	}
	for c := range p.open {
		c.close()
	}
	p.mu.Unlock()
	p.conns.Wait()
	return err
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.conns.Go(func() { p.connect(client.(*net.TCPConn)) })
	}
}

// connect passes on what a client and the gateway send to each other, until one of them ends.
func (p *Proxy) connect(client *net.TCPConn) {
	gateway, err := net.Dial("tcp", p.gateway)
	if err != nil {
		_ = client.Close() // so the client notices
		return
	}
	c := &conn{proxy: p, client: client, gateway: gateway.(*net.TCPConn)}
	p.mu.Lock()
	p.open[c] = struct{}{}
	if p.closed {
		c.close()
	}
	p.mu.Unlock()
	p.conns.Go(func() { c.pass(c.gateway, c.client, c.onAnswer) })
	c.pass(c.client, c.gateway, c.onRequest)
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

// conn is a client's connection, and the connection to the gateway that belongs to it.
type conn struct {
	proxy           *Proxy
	client, gateway *net.TCPConn

	// The mutex of the proxy guards these.
	asks bool // a request has no answer yet
	path string
	fate wire.Fate // of that request
	left int       // bytes of that request that have not come yet
}

// pass passes bytes on until one side ends. on is called with them first. If it returns false, they
// are dropped, and the connections end. If the error of passing on ends them, so does cut.
func (c *conn) pass(from, to *net.TCPConn, on func([]byte) verdict) {
	defer c.close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			said := on(buffer[:n])
			if said == drop {
				c.cut()
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
			if said == last {
				c.cut()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// verdict says what to do with bytes.
type verdict int

const (
	forward verdict = iota
	last            // pass them on, and cut the client off
	drop            // cut the client off instead
)

// onRequest is called with bytes of the client.
func (c *conn) onRequest(b []byte) verdict {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	if c.left > 0 {
		c.left -= len(b)
	} else {
		c.asks, c.fate = true, wire.Pass
		c.path, c.left = parse(b)
		if judge := c.proxy.judge; judge != nil {
			c.fate = judge(c.path)
		}
	}
	switch {
	case c.fate == wire.CutUnsent:
		return drop
	case c.fate == wire.CutUnanswered && c.left <= 0:
		return last
	}
	return forward
}

// onAnswer is called with bytes of the gateway.
func (c *conn) onAnswer([]byte) verdict {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.asks = false
	if c.fate == wire.CutAnswered {
		return drop
	}
	return forward
}

// cut resets the client's connection, and closes that to the gateway.
func (c *conn) cut() {
	_ = c.client.SetLinger(0) // it may have ended
	c.close()
}

func (c *conn) close() {
	_ = c.client.Close()
	_ = c.gateway.Close()
}

// parse returns the path of a request, and how many of its bytes follow those that have come.
func parse(b []byte) (path string, left int) {
	head, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
	if words := bytes.Fields(head); len(words) > 1 {
		path = string(words[1])
	}
	const length = "\r\nContent-Length: "
	if i := bytes.Index(head, []byte(length)); i >= 0 {
		for _, digit := range head[i+len(length):] {
			if digit < '0' || digit > '9' {
				break
			}
			left = 10*left + int(digit-'0')
		}
	}
	return path, left - len(body)
}
