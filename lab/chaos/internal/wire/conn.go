package wire

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// conn is a client's connection and the one to the server that belongs to it.
type conn struct {
	proxy      *Proxy
	client     *net.TCPConn
	swallowing atomic.Bool

	mu     sync.Mutex
	server *net.TCPConn // nil until it is there
	fates  []Fate       // of the requests that have not been answered, in their order
	gentle bool         // it is to be closed, not reset
	deaf   bool         // the client has been cut off: nothing that the server says is passed on
}

// run passes on what is said, to the end of both sides. Where it is swallowed it has none but the
// proxy's.
func (c *conn) run(held <-chan struct{}) {
	defer c.proxy.leave(c)
	if held != nil {
		select {
		case <-held:
		case <-c.proxy.closed:
			return
		}
	}
	if !c.swallowing.Load() && !c.dial() {
		return
	}
	var answers sync.WaitGroup
	if c.server != nil {
		answers.Go(c.fromServer)
	}
	c.fromClient()
	answers.Wait()
	if c.swallowing.Load() {
		<-c.proxy.closed
	}
}

func (c *conn) dial() bool {
	server, err := net.Dial("tcp", c.proxy.server)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = server.(*net.TCPConn)
	select {
	case <-c.proxy.closed: // and has not seen it
		return false
	default:
		return true
	}
}

// fromClient passes on what the client says.
func (c *conn) fromClient() {
	in := bufio.NewReader(c.client)
	err := c.startup(in)
	for s := newSession(); err == nil; {
		var f frame
		if f, err = readFrame(in); err == nil {
			err = c.hear(s, f)
		}
	}
	if c.swallowing.Load() {
		_, _ = io.Copy(io.Discard, in) // what is left of what cannot be understood
		return
	}
	_ = c.server.CloseWrite() // it may have ended
}

func (c *conn) startup(in io.Reader) error {
	bytes, err := readStartup(in)
	if err != nil {
		return err
	}
	return c.toServer(bytes)
}

// hear takes in a message of the client's.
func (c *conn) hear(s *session, f frame) error {
	bytes, request, done, err := s.add(f)
	if err != nil || len(bytes) == 0 {
		return err
	}
	fate := Pass
	if done && !c.swallowing.Load() {
		fate = c.proxy.fate(request)
	}
	fate = c.manner(fate)
	switch fate {
	case CutUnsent:
		c.cut()
		return io.EOF
	case Swallow:
		c.proxy.Swallow()
	}
	if done {
		c.await(fate)
	}
	err = c.toServer(bytes)
	switch fate {
	case CutUnanswered:
		c.cut()
		return io.EOF // the server is told of the end behind the request
	case SwallowAnswer:
		c.proxy.Swallow()
	}
	return err
}

// manner takes from a fate how the connection is to end.
func (c *conn) manner(fate Fate) Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gentle = fate&closed != 0
	return fate &^ closed
}

// await notes that the server is about to be asked. What is to be lost of its answer is lost from
// now on.
func (c *conn) await(fate Fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fates = append(c.fates, fate)
	c.deaf = c.deaf || fate == CutUnanswered || fate == SwallowAnswer
}

// toServer passes bytes on, or swallows them.
func (c *conn) toServer(bytes []byte) error {
	if c.swallowing.Load() {
		return nil
	}
	_, err := c.server.Write(bytes)
	return err
}

// fromServer passes on what the server says.
func (c *conn) fromServer() {
	in := bufio.NewReader(c.server)
	for {
		f, err := readFrame(in)
		if err != nil {
			break
		}
		c.proxy.transmit(len(f))
		if c.answer(f) != nil {
			_, _ = io.Copy(io.Discard, in)
			break
		}
	}
	if !c.swallowing.Load() {
		_ = c.client.Close()
	}
}

// answer passes a message of the server's on, or does not.
func (c *conn) answer(f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fate, last := Pass, f.kind() == 'Z' && len(c.fates) > 0
	if len(c.fates) > 0 {
		fate = c.fates[0]
	}
	if last {
		c.fates = c.fates[1:]
	}
	if c.swallowing.Load() || c.deaf {
		return nil
	}
	if fate != CutAnswered {
		if _, err := c.client.Write(f); err != nil {
			return err
		}
	}
	if last && (fate == CutAnswered || fate == CutIdle) {
		c.deaf = true
		c.reset()
	}
	return nil
}

// cut resets the client's connection.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
	c.reset()
}

// reset ends the client's connection as one ends of which nothing is known at the other end,
// unless it is to be closed in good order.
func (c *conn) reset() {
	if !c.gentle {
		_ = c.client.SetLinger(0) // it may have ended
	}
	_ = c.client.Close()
}

func (c *conn) close() {
	_ = c.client.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		_ = c.server.Close()
	}
}
