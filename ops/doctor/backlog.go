package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// backlog finds the queues whose oldest due jobs have waited long, and tells what is paused.
func backlog(ctx context.Context, d *doctor) (finding, error) {
	backlogs, err := d.Backlogs(ctx)
	if err != nil {
		return finding{}, err
	}
	paused := describePaused(ctx, d)
	if len(backlogs) == 0 {
		return finding{value: "no due job waits" + paused}, nil
	}
	list := slices.SortedFunc(slices.Values(backlogs), func(a, b driver.Backlog) int { return cmp.Compare(b.Age, a.Age) })
	worst := list[0]
	value := fmt.Sprintf("a job of the queue %s has been due for %v; with due jobs: %s", worst.Queue, words.Short(worst.Age), words.Count(len(list), "queue"))
	var late []string
	for _, l := range list[1:] {
		if d.options.Backlog.level(l.Age) != ops.OK {
			late = append(late, l.Queue)
		}
	}
	if len(late) > 0 {
		value += "; late, too: " + words.Enumerate(late)
	}
	return finding{d.options.Backlog.level(worst.Age), value + paused, d.Command("explain", "--queue", worst.Queue)}, nil
}

// describePaused names what is paused, in the words that end a finding: queues, groups of queues,
// kinds.
func describePaused(ctx context.Context, d *doctor) (text string) {
	var names []string
	rules, ofRules := d.Rules(ctx)
	for _, r := range rules {
		switch {
		case r.Paused && r.Group == "":
			names = append(names, "the queue "+r.Queue)
		case r.Paused:
			names = append(names, fmt.Sprintf("the group %q of the queue %s", r.Group, r.Queue))
		}
	}
	kinds, ofKinds := d.PausedKinds(ctx)
	for _, kind := range kinds {
		names = append(names, "the kind "+kind)
	}
	if len(names) > 0 {
		text = "; paused: " + words.Enumerate(names)
	}
	if errors.Is(ofRules, reader.ErrNotTold) {
		ofRules = nil
	}
	if errors.Is(ofKinds, reader.ErrNotTold) {
		ofKinds = nil
	}
	if err := errors.Join(ofRules, ofKinds); err != nil {
		text += "; what is paused could not be read: " + err.Error()
	}
	return text
}
