package reach_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/errandhq/errand/internal/reach"
)

// coded is an error with a code of the server, as pgx and lib/pq have them.
type coded string

func (c coded) Error() string    { return "code " + string(c) }
func (c coded) SQLState() string { return string(c) }

// TestCheck: each error that means that there is no connection has a sentence, and no other error.
// The tests of doctor and explain make those of the network for real.
func TestCheck(t *testing.T) {
	const broke = "the connection to the server broke"
	for _, c := range []struct {
		err  error
		want string // the problem; "" for no *reach.Error
	}{
		{coded("28000"), "the server refuses this user or its password"},
		{coded("3D000"), "the server has no database of this name"},
		{coded("53300"), "the server has no connection left"},
		{fmt.Errorf("too many connections for database \"shop\": %w", coded("53300")), "the database has no connection left, by its own limit"},
		{fmt.Errorf("too many connections for role \"app\": %w", coded("53300")), "the role has no connection left, by its own limit"},
		{coded("57P03"), "the server is starting or stopping"},
		{coded("57P01"), "the server has ended the connection"},
		{coded("08006"), "the server has ended the connection"},
		{coded("08P01"), "the server or its pooler refuses the connection: a call: code 08P01"},
		{coded("42501"), ""},
		{coded("57014"), ""},
		{io.EOF, broke},
		{io.ErrUnexpectedEOF, broke},
		{context.DeadlineExceeded, "the server does not answer in time"},
		{context.Canceled, ""},
		{errors.New("NOAUTH HELLO must be called with the client already authenticated"), "the server wants a password"},
		{errors.New("WRONGPASS invalid username-password pair or user is disabled."), "the server refuses this user or its password"},
		{errors.New("LOADING Redis is loading the dataset in memory"), "the server is loading its data from disk"},
		{errors.New("CLUSTERDOWN The cluster is down"), "the server answers: CLUSTERDOWN The cluster is down"},
		{errors.New("ERR no"), ""},
		{errors.New("no"), ""},
		{&reach.Error{Problem: "a problem"}, "a problem"},
	} {
		got := reach.Check(fmt.Errorf("a call: %w", c.err))
		switch {
		case c.want == "":
			if got != nil {
				t.Errorf("%v: got %v, want none", c.err, got)
			}
		case got == nil || got.Problem != c.want:
			t.Errorf("%v: got %v, want %s", c.err, got, c.want)
		}
	}
	if reach.Check(nil) != nil {
		t.Error("nil is a problem")
	}
}
