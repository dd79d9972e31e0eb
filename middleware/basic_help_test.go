package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/errandhq/errand/queue"
)

var (
	errBasic      = errors.New("basic failure")
	errBasicOther = errors.New("another failure")
)

// basicSecret is in all of a job that no record may show.
const basicSecret = "s3cr3t-of-the-job"

// basicJob is a job as a worker gets it.
func basicJob(attempt int) *queue.Job {
	return &queue.Job{
		ID: 7, Kind: "mail", Queue: "slow", Attempt: attempt, MaxAttempts: 10,
		Payload: []byte(`"` + basicSecret + `"`), Key: basicSecret, Headers: map[string]string{"h": basicSecret},
	}
}

// basicReturns is a handler that returns err.
func basicReturns(err error) queue.Handler {
	return queue.HandlerFunc(func(context.Context, *queue.Job) error { return err })
}

func basicWrap(err error) error {
	return fmt.Errorf("sending: %w", errors.Join(errors.New("also this"), err))
}

// basicSame reports whether got is want itself, not only one that wraps it.
func basicSame(got, want error) bool { return any(got) == any(want) }

// basicEnded is a context that a worker has ended.
func basicEnded(t *testing.T, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	return ctx
}

// basicMute is an error whose text cannot be had.
type basicMute struct{}

func (*basicMute) Error() string { panic("mute") }

// basicHollow is an error whose nil pointer cannot be unwrapped.
type basicHollow struct{ cause error }

func (*basicHollow) Error() string   { return "hollow" }
func (e *basicHollow) Unwrap() error { return e.cause }

// basicRude is an error that cannot be compared.
type basicRude struct{}

func (*basicRude) Error() string { return "rude" }
func (*basicRude) Is(error) bool { panic("rude") }

// basicShy is an error that cannot be converted.
type basicShy struct{}

func (*basicShy) Error() string { return "shy" }
func (*basicShy) As(any) bool   { panic("shy") }

// basicPanicking are errors whose own methods panic, by what is kept of them.
var basicPanicking = map[string]error{
	"*middleware_test.basicMute: its Error method panicked": &basicMute{},
	"hollow": (*basicHollow)(nil),
	"rude":   &basicRude{},
	"shy":    &basicShy{},
}
