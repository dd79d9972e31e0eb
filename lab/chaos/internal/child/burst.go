package child

import (
	"context"
	"strings"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// BadOutcome is what one of many jobs comes to that end at once, in its first attempt.
type BadOutcome struct {
	Number int         `json:"number"` // of the job; 0 means none
	Text   string      `json:"text"`   // one of BadTexts
	Action peer.Action `json:"action"`
}

// What is bad about a text.
const (
	NUL    = "NUL"
	NoUTF8 = "bad UTF-8"
	Long   = "50 MB"
	AllBad = "all of it"
)

// BadTexts are all there are.
var BadTexts = []string{NUL, NoUTF8, Long, AllBad}

// BadPrefix is how every bad text begins.
const BadPrefix = "it went wrong: "

// Error is the text of the error.
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

// burst is the handler of scenario 7: when it is told, it returns at once, as all others
// do, having had its effect before; but for the one whose outcome is bad.
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

// untilTold returns the verb when the process has been told to go on.
func (s *self) awaitGoAhead(ctx context.Context, action peer.Action) peer.Action {
	select {
	case <-s.goAhead:
		return action
	case <-ctx.Done():
		return peer.Retry
	}
}
