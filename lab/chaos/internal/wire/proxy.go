// Package wire is a network that a scenario can break: a proxy between processes and their
// PostgreSQL server. It runs in the parent's process, so it survives the children. It parses the
// protocol far enough to break a connection in the middle of a given statement.
package wire

import (
	"errors"
	"net"
	"net/url"
	"sync"
	"time"
)

// Fate is what happens to a request and to its connection.
type Fate int

// The fates.
const (
	Pass Fate = iota
	// CutUnsent resets the client's connection instead of passing the request on.
	CutUnsent
	// CutUnanswered passes the request on, and resets the client's connection before it has read
	// any of the answer.
	CutUnanswered
	// CutAnswered resets the client's connection when it has read the whole answer and passed
	// nothing of it on.
	CutAnswered
	// CutIdle resets the client's connection when it has passed the answer on.
	CutIdle
	// Swallow makes all existing connections swallow what is sent over them, from this request on,
	// for ever.
	Swallow
	// SwallowAnswer is Swallow, but still passes this request on.
	SwallowAnswer
	// Fates is the number of fates.
	Fates
)

// closed is a flag that is added to a fate.
const closed Fate = 1 << 8

// Closed returns a cut that closes the client's connection instead of resetting it.
func (f Fate) Closed() Fate { return f | closed }

func (f Fate) String() string {
	if f&closed != 0 {
		return (f &^ closed).String() + ", closed"
	}
	return [...]string{"passed on", "cut before it was passed on", "cut before it was answered", "cut before its answer was passed on", "cut while idle",
		"swallowed", "swallowed with its answer"}[f]
}

// Judge decides the fate of each request. Goroutines of several connections call it concurrently.
type Judge func(Request) Fate

// Proxy passes on what clients and server send to each other, unless it is told to break something.
type Proxy struct {
	listener net.Listener
	server   string
	conns    sync.WaitGroup
	closed   chan struct{}

	mu    sync.Mutex
	open  map[*conn]struct{}
	judge Judge
	rate  int           // bytes a second from the server to all clients; 0 means no limit
	free  time.Time     // when the link can take the next byte
	held  chan struct{} // new connections wait until it is closed; nil means they do not wait
}

// Listen returns a proxy for the server at an address.
func Listen(server string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, server: server, closed: make(chan struct{}), open: make(map[*conn]struct{})}
	p.conns.Go(p.serve)
	return p, nil
}

// DSN returns a URL of the server with the proxy's address.
func (p *Proxy) DSN(dsn string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Host = p.listener.Addr().String()
	return u.String(), nil
}

// SetJudge sets the judge from now on. nil passes everything on.
func (p *Proxy) SetJudge(j Judge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = j
}

// Limit limits how many bytes a second the server can send to all clients together, from now on. 0
// means no limit.
func (p *Proxy) Limit(rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// transmit waits as long as n bytes take on the link.
func (p *Proxy) transmit(n int) {
	p.mu.Lock()
	if p.rate == 0 {
		p.mu.Unlock()
		return
	}
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	wait := time.Until(p.free)
	p.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-p.closed:
	}
}

// Hold makes new connections hang until Heal.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Heal lets new connections through again, and those that hang.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Swallow makes all current connections swallow what is sent over them, in both directions, for
// ever. Neither side notices.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.swallowing.Store(true)
	}
}

// Refuse refuses new connections from now on.
func (p *Proxy) Refuse() error { return p.listener.Close() }

// Close ends all connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // it refuses already
	}
	p.mu.Lock()
	close(p.closed)
	for c := range p.open {
		c.close()
	}
	p.mu.Unlock()
	p.conns.Wait()
	return err
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		c := &conn{proxy: p, client: client.(*net.TCPConn)}
		if held, ok := p.enter(c); ok {
			p.conns.Go(func() { c.run(held) })
		}
	}
}

// enter adds a connection to the current ones.
func (p *Proxy) enter(c *conn) (held <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		c.close()
		return nil, false
	default:
	}
	p.open[c] = struct{}{}
	return p.held, true
}

func (p *Proxy) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	c.close()
}

// fate returns the judge's decision about a request.
func (p *Proxy) fate(r Request) Fate {
	p.mu.Lock()
	judge := p.judge
	p.mu.Unlock()
	if judge == nil {
		return Pass
	}
	return judge(r)
}
