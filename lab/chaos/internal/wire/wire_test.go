package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// serve starts a server that answers every request, and sends the requests to asked.
func serve(t *testing.T) (address string, asked <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	heard := make(chan string, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(c, heard)
		}
	}()
	return listener.Addr().String(), heard
}

func answer(c net.Conn, heard chan<- string) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			heard <- m.String
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("DONE")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Sync:
			heard <- "sync"
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

func listen(t *testing.T, j Judge) (*Proxy, <-chan string) {
	t.Helper()
	server, asked := serve(t)
	p, err := Listen(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.SetJudge(j)
	return p, asked
}

// client is a client's side of a connection through a proxy.
type client struct {
	net.Conn
	*pgproto3.Frontend
}

func dial(t *testing.T, p *Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f := client{c, pgproto3.NewFrontend(c, c)}
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "x"}})
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	return f
}

// ready reads until the server is ready, for as long as within.
func (c client) ready(within time.Duration) (messages int, err error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	for {
		m, err := c.Receive()
		if err != nil {
			return messages, err
		}
		messages++
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			return messages, nil
		}
	}
}

func (c client) ask(sql string, within time.Duration) (messages int, err error) {
	c.Send(&pgproto3.Query{String: sql})
	if err := c.Flush(); err != nil {
		return 0, err
	}
	return c.ready(within)
}

const (
	patience = 20 * time.Second      // far longer than any test takes
	moment   = 30 * time.Millisecond // of silence
)

func TestFates(t *testing.T) {
	for fate, want := range map[Fate]struct {
		err     error // the client's error
		arrives bool  // the server gets the request
	}{
		Pass:          {nil, true},
		CutUnsent:     {syscall.ECONNRESET, false},
		CutUnanswered: {syscall.ECONNRESET, true},
		CutAnswered:   {syscall.ECONNRESET, true},
		CutIdle:       {nil, true},

		CutUnsent.Closed():     {io.ErrUnexpectedEOF, false},
		CutUnanswered.Closed(): {io.ErrUnexpectedEOF, true},
		CutAnswered.Closed():   {io.ErrUnexpectedEOF, true},

		Swallow:       {os.ErrDeadlineExceeded, false},
		SwallowAnswer: {os.ErrDeadlineExceeded, true},
	} {
		t.Run(fate.String(), func(t *testing.T) {
			p, asked := listen(t, func(r Request) Fate {
				if r.Has("COMMIT") {
					return fate
				}
				return Pass
			})
			c := open(t, p)
			ask(t, c, asked, "BEGIN")
			within := patience
			if errors.Is(want.err, os.ErrDeadlineExceeded) {
				within = moment
			}
			n, err := c.ask("COMMIT", within)
			if !errors.Is(err, want.err) {
				t.Errorf("the client got %v, want %v", err, want.err)
			}
			if err != nil && n > 0 {
				t.Errorf("the client got %d messages of an answer that is not passed on", n)
			}
			if want.arrives {
				if got := <-asked; got != "COMMIT" {
					t.Errorf("the server was asked %q", got)
				}
			}
			if fate == CutIdle {
				if _, err := c.ready(patience); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("idle: the client got %v, want a reset", err)
				}
			}
			ask(t, open(t, p), asked, "again") // and the server got nothing else before
		})
	}
}

// open returns a connection that is ready.
func open(t *testing.T, p *Proxy) client {
	t.Helper()
	c := dial(t, p)
	if _, err := c.ready(patience); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request to the server and reads its answer.
func ask(t *testing.T, c client, asked <-chan string, sql string) {
	t.Helper()
	if _, err := c.ask(sql, patience); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if got := <-asked; got != sql {
		t.Fatalf("the server was asked %q, not %q", got, sql)
	}
}

// TestSwallowIsOfAll: the other connections swallow, too, and the server keeps its end.
func TestSwallowIsOfAll(t *testing.T) {
	p, asked := listen(t, nil)
	a, b := open(t, p), open(t, p)
	p.Swallow()
	for _, c := range []client{a, b} {
		if _, err := c.ask("lost", moment); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want silence", err)
		}
	}
	ask(t, open(t, p), asked, "new")
}

func TestHoldAndHeal(t *testing.T) {
	p, _ := listen(t, nil)
	p.Hold()
	p.Hold()
	c := dial(t, p)
	if n, err := c.ready(moment); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("held: got %d messages, %v, want silence", n, err)
	}
	p.Heal()
	p.Heal()
	if _, err := c.ready(patience); err != nil {
		t.Errorf("healed: got %v", err)
	}
}

// TestPrepared: statements are known by their names, and a statement that is only prepared does not
// count as executed.
func TestPrepared(t *testing.T) {
	requests := make(chan []string, 10)
	p, asked := listen(t, func(r Request) Fate { requests <- r.SQL; return Pass })
	c := open(t, p)
	for _, step := range []struct {
		messages []pgproto3.FrontendMessage
		want     []string
	}{
		{[]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "s1", Query: "one"}, &pgproto3.Describe{ObjectType: 'S', Name: "s1"}, &pgproto3.Sync{}}, nil},
		{[]pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "s1"}, &pgproto3.Execute{}, &pgproto3.Sync{}}, []string{"one"}},
		{[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "two"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}}, []string{"two"}},
	} {
		for _, m := range step.messages {
			c.Send(m)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ready(patience); err != nil {
			t.Fatal(err)
		}
		if got := <-requests; !slices.Equal(got, step.want) {
			t.Errorf("got %q, want %q", got, step.want)
		}
		<-asked
	}
}

func TestDSN(t *testing.T) {
	p, _ := listen(t, nil)
	got, err := p.DSN("postgres://u:p@127.0.0.1:1/db?sslmode=disable")
	if want := "postgres://u:p@" + p.listener.Addr().String() + "/db?sslmode=disable"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
