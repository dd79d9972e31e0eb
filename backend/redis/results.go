package redis

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/errandhq/errand/queue"
)

// KeepProgress implements [driver.ResultKeeper].
func (b *Backend) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	for _, p := range progress {
		if err := p.Check(); err != nil {
			return err
		}
	}
	if len(progress) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return failed("keep progress", err)
	}
	c := b.group(len(progress), nil, func(i int) int64 { return progress[i].Job.ID }, func(i int) []string {
		return []string{strconv.FormatInt(progress[i].Job.Fence, 10), progress[i].Job.Worker, string(progress[i].Value)}
	})
	if _, err := messages(b.callAll(ctx, "progress", c.partitions, c.args)); err != nil {
		return failed("keep progress", err)
	}
	return nil
}

// Result implements [driver.ResultKeeper].
func (b *Backend) Result(ctx context.Context, id int64) (result queue.Result, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return result, false, failed("read result", err)
	}
	p, seq := b.locate(id)
	in, err := b.callFields(ctx, "result", p, strconv.FormatInt(seq, 10))
	if err != nil {
		return result, false, failed("read result", err)
	}
	if len(in.fields) == 0 {
		return result, false, nil
	}
	result = queue.Result{ID: id, Status: queue.Status(in.text()), LastError: in.text(), Output: rawJSON(in.text()), Progress: rawJSON(in.text()), ProgressAt: in.time()}
	if in.err != nil {
		return result, false, failed("read result", in.err)
	}
	return result, true, nil
}

// rawJSON returns a text as JSON; "" is nil.
func rawJSON(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
