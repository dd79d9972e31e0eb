package queuetest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// letter is what the jobs of these tests carry.
type letter struct {
	UserID int64
	Plan   string   `json:",omitempty"`
	Tags   []string `json:",omitempty"`
}

var letters = queue.NewKind[letter]("email.welcome")

// recorder is a test that fails without failing the one that it stands for.
type recorder struct {
	testing.TB
	said   []string
	helper bool
}

func (r *recorder) Helper()           { r.helper = true }
func (r *recorder) Error(args ...any) { r.said = append(r.said, "Error: "+fmt.Sprint(args...)) }

func (r *recorder) Fatal(args ...any) {
	r.said = append(r.said, "Fatal: "+fmt.Sprint(args...))
	runtime.Goexit()
}

// messages returns what a test would have said that asserts that.
func messages(t *testing.T, assert func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert(r)
	}()
	<-done
	if !r.helper {
		t.Errorf("the assertion did not call Helper: its failures do not show the caller's line")
	}
	return strings.Join(r.said, "\n")
}

// wantMessage compares the whole of it.
func wantMessage(t *testing.T, want string, assert func(t testing.TB)) {
	t.Helper()
	if got := messages(t, assert); got != want {
		t.Errorf("messages:\n got %s\nwant %s", got, want)
	}
}

// newLetters returns a queue with jobs of those arguments, whose IDs are 1, 2, ….
func newLetters(t *testing.T, all ...letter) *queuetest.Queue {
	t.Helper()
	q := queuetest.New(queuetest.Options{})
	for _, l := range all {
		enqueue(t, q, nil, letters.New(l))
	}
	return q
}
