package pqlisten

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// server is a PostgreSQL server that answers so many messages of a client, and then falls silent.
type server struct{ answers int }

// dial is a [dialFunc].
func (s server) dial(context.Context, string, string) (net.Conn, error) {
	client, conn := net.Pipe()
	go s.serve(conn)
	return client, nil
}

func (s server) serve(conn net.Conn) {
	ready := []byte{'Z', 0, 0, 0, 5, 'I'}
	for i := range s.answers {
		head := make([]byte, 4+min(i, 1)) // the length, after the kind; the first message has none
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[len(head)-4:]))-4)
		answer := append([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0}, ready...)
		if i > 0 {
			answer = append([]byte{'C', 0, 0, 0, 11, 'L', 'I', 'S', 'T', 'E', 'N', 0}, ready...)
		}
		_, _ = conn.Write(answer)
	}
	_, _ = io.Copy(io.Discard, conn)
}

const dsn = "host=127.0.0.1 user=u password=p dbname=d sslmode=disable"

// TestSilentServer: a server that falls silent at the start, before LISTEN, or at the first or
// second ping is given up after ten seconds.
func TestSilentServer(t *testing.T) {
	for answers, want := range []time.Duration{
		answerTimeout, answerTimeout, pingEvery + answerTimeout, 2*pingEvery + answerTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(time.Second) // in which lib/pq's goroutine ends
			begun, readied := time.Now(), 0
			err := listen(t.Context(), server{answers}.dial, dsn, "errand", func() { readied++ }, func(string) {})
			if took := time.Since(begun); !errors.Is(err, errSilent) || took != want {
				t.Errorf("silent after %d answers: got %v after %v, want %v after %v", answers, err, took, errSilent, want)
			}
			if wantReady := min(answers/2, 1); readied != wantReady {
				t.Errorf("silent after %d answers: ready %d times, want %d", answers, readied, wantReady)
			}
		})
	}
}

// TestCancelSilentServer: at shutdown nobody waits for a server that has fallen silent, whatever it
// was asked.
func TestCancelSilentServer(t *testing.T) {
	for answers := range 4 {
		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(time.Second)                                     // in which lib/pq's goroutine ends
			asked := time.Duration(max(answers-1, 0))*pingEvery + time.Second // within the first unanswered wait
			ctx, cancel := context.WithTimeout(t.Context(), asked)
			defer cancel()
			begun := time.Now()
			err := listen(ctx, server{answers}.dial, dsn, "errand", func() {}, func(string) {})
			if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != asked {
				t.Errorf("silent after %d answers: got %v after %v, want %v after %v", answers, err, took, context.DeadlineExceeded, asked)
			}
		})
	}
}
