package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
)

// unanswered is a queue that does not know whether it has written the job.
type unanswered struct{ queue.Queue }

func (unanswered) Enqueue(context.Context, queue.DB, ...*queue.Job) error {
	return fmt.Errorf("enqueue: %w", queue.ErrUnknown)
}

// TestRepeatAdvice: an enqueue in doubt tells how to look for the job. A key keeps a second one
// from being written only while the first is live.
func TestRepeatAdvice(t *testing.T) {
	for key, want := range map[string]string{"": "look whether the job is there before you repeat it: errand jobs list --kind k", "a key": "while the first job is live"} {
		a := app{&cli.App{Err: io.Discard}}
		err := a.enqueue(t.Context(), &dburl.Database{Queue: unanswered{}}, &queue.Job{Kind: "k", Key: key})
		if !errors.Is(err, queue.ErrUnknown) || !strings.HasPrefix(a.RepeatAdvice, want) || !strings.Contains(a.RepeatAdvice, "list --k") {
			t.Errorf("key %q: error %v, advice %q", key, err, a.RepeatAdvice)
		}
	}
}
