package child

import (
	"context"
	"strings"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// BadOutcome is the outcome of one of many jobs that end at the same moment, in its first attempt.
type BadOutcome struct {
	Number int         `json:"number"` // of the job; 0 means none
	Text   string      `json:"text"`   // one of BadTexts
	Action peer.Action `json:"action"`
}

// The ways in which a text is bad.
const (
	NUL    = "NUL"
	NoUTF8 = "bad UTF-8"
	Long   = "50 MB"
	AllBad = "all of it"
)

// BadTexts lists them all.
var BadTexts = []string{NUL, NoUTF8, Long, AllBad}

// BadPrefix begins every bad text.
const BadPrefix = "it went wrong: "

// Error returns the text of the error.
func (b BadOutcome) Error() string {
	const long = 50 << 20
	switch b.Text {
	case NUL:
		return BadPrefix + "a\x00b"
	case NoUTF8:
		return BadPrefix + "a\xffb\xc3"
	case Long:
		return BadPrefix + strings.Repeat("long ", long/5)
	}
	return BadPrefix + strings.Repeat("\x00\xff\xc3 ä", long/6)
}

// burst is the handler of scenario 7. It has its effect, waits for the go-ahead, and returns, as
// all others do at that moment. The job with the bad outcome has no effect and returns a bad error.
func burst(ctx context.Context, s *self, run peer.Run) peer.Action {
	s.started(run)
	bad := s.Work.Bad
	if run.Number != bad.Number || run.Attempt > 1 {
		s.effect(run)
		return s.awaitGoAhead(ctx, peer.Done)
	}
	*run.Text = bad.Error()
	return s.awaitGoAhead(ctx, bad.Action)
}

// awaitGoAhead waits for the parent's go-ahead and returns the action, or Retry if ctx ends first.
func (s *self) awaitGoAhead(ctx context.Context, action peer.Action) peer.Action {
	select {
	case <-s.goAhead:
		return action
	case <-ctx.Done():
		return peer.Retry
	}
}
