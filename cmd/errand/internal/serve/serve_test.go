package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serving is a call of serve.
type serving struct {
	listener pipes
	stop     context.CancelFunc
	ended    chan error
}

func startServing(ctx context.Context, handler http.HandlerFunc) serving {
	ctx, cancel := context.WithCancel(ctx)
	s := serving{make(pipes), cancel, make(chan error, 1)}
	go func() { s.ended <- serve(ctx, s.listener, handler, slog.New(slog.DiscardHandler)) }()
	return s
}

// send connects, and sends the beginning of a form of ten bytes.
func (s serving) send(t *testing.T, begin string) net.Conn {
	client, server := net.Pipe()
	s.listener <- server
	if _, err := fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n%s", begin); err != nil {
		t.Error(err)
	}
	return client
}

// TestSlowClient: the server ends two seconds after it was told to, although clients have sent half
// of a header and half of a form, and without an error. Before, it gives up such a form after a
// while.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gaveUp time.Duration
		s := startServing(t.Context(), func(_ http.ResponseWriter, r *http.Request) {
			began := time.Now()
			_, _ = io.ReadAll(r.Body)
			gaveUp = time.Since(began)
		})
		defer s.send(t, "half").Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if gaveUp != readTime {
			t.Errorf("it waited %v for the form, want %v", gaveUp, readTime)
		}

		defer s.send(t, "half").Close()
		client, server := net.Pipe()
		defer client.Close()
		s.listener <- server
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\n"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		began := time.Now()
		s.stop()
		if err := <-s.ended; err != nil || time.Since(began) > drainTime+200*time.Millisecond {
			t.Errorf("it ended after %v with %v, want %v", time.Since(began), err, drainTime)
		}
	})
}

// TestLastAction: an action whose form has arrived is answered, although the server was told to end
// and the action takes longer than that would.
func TestLastAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServing(t.Context(), func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			select {
			case <-time.After(10 * time.Second):
				w.WriteHeader(http.StatusSeeOther)
			case <-r.Context().Done():
			}
		})
		client := s.send(t, "half")
		defer client.Close()
		defer s.send(t, "half").Close() // a slow client beside it
		synctest.Wait()
		s.stop()
		synctest.Wait()
		if _, err := io.WriteString(client, "a form"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusSeeOther {
			t.Errorf("status %d", answer.StatusCode)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
}
