package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// backlog finds the queues whose oldest due jobs have waited long, and tells what is paused.
func backlog(ctx context.Context, d *doctor) (finding, error) {
	b, ok := driver.As[driver.Backlogger](d.queue)
	if !ok {
		return finding{level: Skipped, value: errNoCapability.Error()}, nil
	}
	list, err := b.Backlogs(ctx)
	if err != nil {
		return finding{}, err
	}
	paused := d.paused(ctx)
	if len(list) == 0 {
		return finding{value: "no due job waits" + paused}, nil
	}
	slices.SortFunc(list, func(a, b driver.Backlog) int { return cmp.Compare(b.Age, a.Age) })
	worst := list[0]
	value := fmt.Sprintf("a job of the queue %s has been due for %v; with due jobs: %s", worst.Queue, short(worst.Age), count(len(list), "queue"))
	var late []string
	for _, l := range list[1:] {
		if d.options.Backlog.level(l.Age) != OK {
			late = append(late, l.Queue)
		}
	}
	if len(late) > 0 {
		value += "; late, too: " + enumerate(late)
	}
	return finding{d.options.Backlog.level(worst.Age), value + paused, d.command("explain", "--queue", worst.Queue)}, nil
}

// paused names what is paused, in the words that end a finding: queues, groups of queues, kinds.
func (d *doctor) paused(ctx context.Context) (text string) {
	var names []string
	var err error
	if ruler, ok := driver.As[driver.Ruler](d.queue); ok {
		var rules []queue.Rule
		rules, err = ruler.Rules(ctx)
		for _, r := range rules {
			switch {
			case r.Paused && r.Group == "":
				names = append(names, "the queue "+r.Queue)
			case r.Paused:
				names = append(names, fmt.Sprintf("the group %q of the queue %s", r.Group, r.Queue))
			}
		}
	}
	if pauser, ok := driver.As[driver.Pauser](d.queue); ok {
		kinds, failed := pauser.PausedKinds(ctx)
		err = errors.Join(err, failed)
		for _, kind := range kinds {
			names = append(names, "the kind "+kind)
		}
	}
	if len(names) > 0 {
		text = "; paused: " + enumerate(names)
	}
	if err != nil {
		text += "; what is paused could not be read: " + err.Error()
	}
	return text
}
