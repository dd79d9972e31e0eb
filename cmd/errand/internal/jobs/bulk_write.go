package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// bulkWriter writes the lines of an input, in batches.
type bulkWriter struct {
	app
	d     *dburl.Database
	to    driver.Receiver
	state *bulkState
	bar   interface {
		io.Writer
		Add(n int)
	}
}

// maxBatchBytes is how many bytes of lines a batch has, but for a longer line.
const maxBatchBytes = 8 << 20

// writeLines writes the lines after those that are done.
func (w *bulkWriter) writeLines(ctx context.Context, in io.ReadSeeker, most int) error {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	bar := w.Progress("enqueueing", w.state.Counts.Lines)
	defer bar.Close()
	w.bar = bar
	r := newLineReader(in)
	var batch []driver.Transfer
	size := 0
	flush := func() error {
		if err := w.write(ctx, batch); err != nil {
			return err
		}
		bar.Add(len(batch))
		batch, size = batch[:0], 0
		return w.state.advance(r.line)
	}
	for r.next() {
		if r.line <= w.state.Done {
			bar.Add(1)
			continue
		}
		job, err := r.job()
		if err != nil {
			return fmt.Errorf("line %d has changed since it was checked: %w", r.line, err)
		}
		batch = append(batch, driver.Transfer{Source: fmt.Sprintf("%s %d", w.state.ID, r.line), Job: job})
		if size += len(r.text); len(batch) >= most || size >= maxBatchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := r.err(); err != nil {
		return err
	}
	if r.sum() != w.state.Input {
		return errors.New("the file has changed while it was read")
	}
	return flush()
}

// write writes a batch. If the database refuses a job, it divides the batch to find which.
func (w *bulkWriter) write(ctx context.Context, batch []driver.Transfer) error {
	if len(batch) == 0 {
		return nil
	}
	received := 0
	err := w.Step(ctx, w.d, func(ctx context.Context) (err error) {
		received, err = w.to.Receive(ctx, batch...)
		return err
	})
	counts := &w.state.Counts
	switch {
	case err == nil:
		counts.add(batch, received)
		return nil
	case !isRefusal(err):
		return err
	case len(batch) == 1:
		if counts.Refused++; counts.Refused <= maxShown {
			line := batch[0].Source[strings.LastIndex(batch[0].Source, " ")+1:]
			fmt.Fprintf(w.bar, "errand: line %s: %v\n", line, err)
		}
		return nil
	}
	half := len(batch) / 2
	if err := w.write(ctx, batch[:half]); err != nil {
		return err
	}
	return w.write(ctx, batch[half:])
}

// add counts a batch of which the database has received so many jobs.
func (c *bulkCounts) add(batch []driver.Transfer, received int) {
	if received < len(batch) { // which of them is not known, nor what the others were
		c.Repeated += len(batch) - received
		c.Enqueued += received
		return
	}
	for _, t := range batch {
		switch {
		case t.Job.Duplicate:
			c.Duplicates++
		case t.Job.Replaced:
			c.Replaced++
		default:
			c.Enqueued++
		}
	}
}

// isRefusal reports whether the database has refused a job because of what the job is: a bad value,
// a constraint, or a trigger.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*queue.InvalidError](err); ok {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok && len(e.SQLState()) == 5 {
		switch e.SQLState()[:2] {
		case "22", "23", "54", "P0":
			return true
		}
	}
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		const tooBig, constraint, mismatch = 18, 19, 20
		switch e.Code() & 0xff {
		case tooBig, constraint, mismatch:
			return true
		}
	}
	return false
}

// stopped returns the error of a run that has not come to its end, with what to do about it.
func (w *bulkWriter) stopped(err error) error {
	_ = w.state.save() // what is written and not noted there is left out by the next run all the same
	if w.state.file == "" {
		return fmt.Errorf("the lines up to %d are done, and it is not known whether the next ones are: %w", w.state.Done, err)
	}
	w.Notef("the lines up to %d are done: repeat the command within %v to go on, and no job is enqueued twice", w.state.Done, resumeWindow)
	if errors.Is(err, queue.ErrUnknown) {
		return errors.New("stopped: " + err.Error()) // a repeat finds out
	}
	return err
}

// resumeWindow is how long after its last batch an import may go on.
const resumeWindow = driver.TransferWindow - time.Hour
