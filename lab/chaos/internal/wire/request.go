package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Request is what a client sends before it waits for an answer.
type Request struct {
	SQL []string // the executed statements, in order; not those that are only prepared
}

// Has reports whether the request executes a statement that contains the text.
func (r Request) Has(text string) bool {
	return slices.ContainsFunc(r.SQL, func(sql string) bool { return strings.Contains(sql, text) })
}

// frame is a message of the protocol, with its type and its length.
type frame []byte

func (f frame) kind() byte   { return f[0] }
func (f frame) body() []byte { return f[5:] }

// longest bounds a message. All messages here are much shorter.
const longest = 64 << 20

var errFrame = errors.New("wire: not a message of PostgreSQL's protocol")

// readFrame reads a message.
func readFrame(r io.Reader) (frame, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	return readRest(r, head, 1)
}

// readStartup reads the first message of a connection, which has no type.
func readStartup(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	return readRest(r, head, 0)
}

// readRest reads what follows the length of a message. The length is at an offset in its head.
func readRest(r io.Reader, head []byte, at int) ([]byte, error) {
	n := int(binary.BigEndian.Uint32(head[at:]))
	if n < 4 || n > longest {
		return nil, errFrame
	}
	f := make([]byte, at+n)
	copy(f, head)
	_, err := io.ReadFull(r, f[len(head):])
	return f, err
}

// session keeps what a client has prepared, and collects its request.
type session struct {
	prepared map[string]string // statements by name
	portals  map[string]string // statements by portal
	bytes    []byte
	request  Request
}

func newSession() *session {
	return &session{prepared: make(map[string]string), portals: make(map[string]string)}
}

// add adds a message. If bytes are not empty, they must be passed on together now. done reports
// whether they end a request.
func (s *session) add(f frame) (bytes []byte, r Request, done bool, err error) {
	s.bytes = append(s.bytes, f...)
	switch f.kind() {
	case 'P':
		var m pgproto3.Parse
		if err = m.Decode(f.body()); err == nil {
			s.prepared[m.Name] = m.Query
		}
		return nil, r, false, err
	case 'B':
		var m pgproto3.Bind
		if err = m.Decode(f.body()); err == nil {
			s.portals[m.DestinationPortal] = s.prepared[m.PreparedStatement]
		}
		return nil, r, false, err
	case 'E':
		var m pgproto3.Execute
		if err = m.Decode(f.body()); err == nil {
			s.request.SQL = append(s.request.SQL, s.portals[m.Portal])
		}
		return nil, r, false, err
	case 'D', 'C':
		return nil, r, false, nil
	case 'Q':
		var m pgproto3.Query
		if err := m.Decode(f.body()); err != nil {
			return nil, r, false, err
		}
		s.request.SQL = append(s.request.SQL, m.String)
		done = true
	case 'S':
		done = true
	}
	bytes, s.bytes = s.bytes, nil
	if done {
		r, s.request = s.request, Request{}
	}
	return bytes, r, done, nil
}
