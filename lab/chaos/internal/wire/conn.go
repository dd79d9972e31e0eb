package wire

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// conn is a client's connection, and the proxy's connection to the server that belongs to it.
type conn struct {
	proxy      *Proxy
	client     *net.TCPConn
	swallowing atomic.Bool

	mu     sync.Mutex
	server *net.TCPConn // nil until it is connected
	fates  []Fate       // of the requests without an answer yet, in order
	gentle bool         // it will be closed, not reset
	deaf   bool         // the client was cut off: nothing from the server is passed on
}

// run passes bytes on until both sides end. A swallowed connection lasts until the proxy ends.
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
	case <-c.proxy.closed: // closed before it was released
		return false
	default:
		return true
	}
}

// fromClient passes on what the client sends.
func (c *conn) fromClient() {
	in := bufio.NewReader(c.client)
	err := c.startup(in)
	for s := newSession(); err == nil; {
		var f frame
		if f, err = readFrame(in); err == nil {
			err = c.handleMessage(s, f)
		}
	}
	if c.swallowing.Load() {
		_, _ = io.Copy(io.Discard, in) // the rest of what the proxy cannot parse
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

// handleMessage handles a message of the client.
func (c *conn) handleMessage(s *session, f frame) error {
	bytes, request, done, err := s.add(f)
	if err != nil || len(bytes) == 0 {
		return err
	}
	fate := Pass
	if done && !c.swallowing.Load() {
		fate = c.proxy.fate(request)
	}
	fate = c.takeClosed(fate)
	switch fate {
	case CutUnsent:
		c.cut()
		return io.EOF
	case Swallow:
		c.proxy.Swallow()
	}
	if done {
		c.expectAnswer(fate)
	}
	err = c.toServer(bytes)
	switch fate {
	case CutUnanswered:
		c.cut()
		return io.EOF // the server gets the request, and then the end
	case SwallowAnswer:
		c.proxy.Swallow()
	}
	return err
}

// takeClosed notes how a fate ends the connection, and returns the fate without that.
func (c *conn) takeClosed(fate Fate) Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gentle = fate&closed != 0
	return fate &^ closed
}

// expectAnswer notes that the server is about to get a request. From now on the parts of the answer
// that the fate takes are lost.
func (c *conn) expectAnswer(fate Fate) {
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

// fromServer passes on what the server sends.
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

// answer passes a message of the server on, or drops it.
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

// reset ends the client's connection with a reset, as after a crash. With gentle it closes the
// connection instead.
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
