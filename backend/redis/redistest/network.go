package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// network is what the nodes of a cluster and their clients reach each other by: a proxy before each
// node. A node connects to others from a host of its own, so a proxy knows which of them calls. A
// client's host is 127.0.0.1 unless its dialer says otherwise.
type network struct {
	mu        sync.Mutex
	listeners []net.Listener
	conns     map[*conn]struct{}
	holds     func(from, to string) bool // nil: nothing
	changed   chan struct{}              // closed when holds changes
	nodes     int                        // that have had a host
	failed    error                      // why a listener has ended early
}

func newNetwork() *network {
	return &network{conns: make(map[*conn]struct{}), changed: make(chan struct{})}
}

// newHost returns a host for another node.
func (n *network) newHost() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes++
	return fmt.Sprintf("127.2.%d.%d", n.nodes/256, n.nodes%256)
}

// isNode reports whether a host is a node's.
func isNode(host string) bool {
	ip := net.ParseIP(host).To4()
	return ip != nil && ip[1] == 2
}

// serve lets others reach a port of 127.0.0.1 at the same port of host.
func (n *network) serve(ctx context.Context, host, port string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("redistest: network: %w", err)
	}
	n.mu.Lock()
	n.listeners = append(n.listeners, l)
	n.mu.Unlock()
	go n.accept(l, host, port)
	return nil
}

// accept connects who calls, until the listener is closed. If it fails before, it is closed, so
// that callers are refused, and close returns the error.
func (n *network) accept(l net.Listener, host, port string) {
	for {
		near, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n.mu.Lock()
			n.failed = errors.Join(n.failed, fmt.Errorf("redistest: network: %w", err), l.Close())
			n.mu.Unlock()
			return
		}
		go n.connect(near, host, port)
	}
}

// conn is a connection through the network.
type conn struct {
	from, to  string // hosts
	near, far net.Conn
	isReset   bool // guarded by the network's mutex
}

func (c *conn) close() {
	_ = c.near.Close()
	_ = c.far.Close()
}

// connect passes on what the two ends send, until one of them ends. A server that does not listen
// ends the connection, when that may be told.
func (n *network) connect(near net.Conn, host, port string) {
	from, _, _ := net.SplitHostPort(near.RemoteAddr().String())
	far, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		c := &conn{from: from, to: host, near: near, far: near}
		n.await(c)
		c.close()
		return
	}
	c := &conn{from: from, to: host, near: near, far: far}
	n.mu.Lock()
	n.conns[c] = struct{}{}
	n.mu.Unlock()
	go n.pass(c, far, near)
	n.pass(c, near, far)
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

// pass passes on what one end sends, and that it has ended, when the network lets it through.
func (n *network) pass(c *conn, from, to net.Conn) {
	defer c.close()
	buffer := make([]byte, 64<<10)
	for {
		size, err := from.Read(buffer)
		if !n.await(c) {
			return
		}
		if _, failed := to.Write(buffer[:size]); err != nil || failed != nil {
			return
		}
	}
}

// await waits until the network holds a connection no more. It returns false if that is to end.
func (n *network) await(c *conn) bool {
	for {
		n.mu.Lock()
		isHeld, isReset, changed := n.holds != nil && n.holds(c.from, c.to), c.isReset, n.changed
		n.mu.Unlock()
		if isReset || !isHeld {
			return !isReset
		}
		<-changed
	}
}

// hold makes connections for which holds returns true stand still. nil heals them all. With reset
// those that stood still end instead of going on.
func (n *network) hold(holds func(from, to string) bool, reset bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if reset && n.holds != nil && n.holds(c.from, c.to) {
			c.isReset = true
			c.close()
		}
	}
	n.holds = holds
	close(n.changed)
	n.changed = make(chan struct{})
}

// close ends all connections. It returns why a listener has ended before.
func (n *network) close() error {
	n.hold(func(_, _ string) bool { return true }, false)
	n.mu.Lock()
	for _, l := range n.listeners {
		_ = l.Close()
	}
	failed := n.failed
	n.failed = nil
	n.mu.Unlock()
	n.hold(nil, true)
	return failed
}

// Isolate parts the network of a cluster that was started with [Options].Splits: on one side are
// the nodes with these addresses, and clients whose host is one of them ("127.1.1.1"), which a
// client's dialer chooses as its local address. On the other side are all others. What is sent to
// the other side, also over connections that there are, is held until Heal, as by a network that
// loses everything: nobody is told.
func (s *Server) Isolate(side ...string) error {
	hosts := make(map[string]bool)
	for _, name := range side {
		host, _, err := net.SplitHostPort(name)
		if err != nil {
			hosts[name] = true
			continue
		}
		p, err := s.node(name)
		if err != nil {
			return err
		}
		p.isAway, hosts[host] = true, true
	}
	return s.hold(func(from, to string) bool { return hosts[from] != hosts[to] })
}

// CutClients holds what clients and the node with that address send each other, until Heal. The
// nodes reach each other.
func (s *Server) CutClients(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return s.hold(func(from, to string) bool { return to == host && !isNode(from) })
}

// Heal ends what Isolate or CutClients began. What was held arrives now, however late. With reset
// the connections that it was sent over end instead.
func (s *Server) Heal(reset bool) error {
	for _, p := range s.nodes {
		p.isAway = false
	}
	if s.network == nil {
		return errNoNetwork
	}
	s.network.hold(nil, reset)
	return nil
}

var errNoNetwork = errors.New("redistest: the cluster was started without Options.Splits")

func (s *Server) hold(holds func(from, to string) bool) error {
	if s.network == nil {
		return errNoNetwork
	}
	s.network.hold(holds, false)
	return nil
}
