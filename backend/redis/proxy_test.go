package redis_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// proxy passes connections on to a server. While cut is set it passes requests on, and ends the
// connection instead of passing back an answer.
type proxy struct {
	listener net.Listener
	to       atomic.Pointer[string]
	cut      atomic.Bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{listener: l}
	p.to.Store(&to)
	go p.serve()
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", *p.to.Load())
		if err != nil {
			near.Close()
			continue
		}
		go copyAll(far, near)
		go p.answer(near, far)
	}
}

// answer passes answers back.
func (p *proxy) answer(near, far net.Conn) {
	defer near.Close()
	defer far.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := far.Read(buffer)
		if err != nil || p.cut.Load() {
			return
		}
		if _, err := near.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// eventually waits until something is so, at most ten seconds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after ten seconds it is not so: %s", what)
		}
	}
}
