package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Count is the output of a job.
type Count struct {
	Words int    `json:"words"`
	By    string `json:"by"` // the language of the worker
}

// audit reads the output of every job, and fails unless each is right.
func audit(ctx context.Context, q queue.Queue, texts map[int64]Text) error {
	keeper, ok := driver.As[driver.ResultKeeper](q)
	if !ok {
		return errors.New("the backend keeps no output")
	}
	by := make(map[string]int)
	var wrong []error
	for id, text := range texts {
		r, ok, err := keeper.Result(ctx, id)
		if err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
		if !ok {
			wrong = append(wrong, fmt.Errorf("job %d: not found", id))
			continue
		}
		var c Count
		if err := json.Unmarshal(r.Output, &c); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
		if want := len(strings.Fields(text.Text)); c.Words != want {
			wrong = append(wrong, fmt.Errorf("job %d: %d words by %s, want %d", id, c.Words, c.By, want))
		}
		by[cmp.Or(c.By, "nobody")]++
	}
	for _, language := range slices.Sorted(maps.Keys(by)) {
		fmt.Printf("%-8s %3d jobs\n", language, by[language])
	}
	if len(wrong) == 0 {
		fmt.Printf("%d of %d jobs are done, each with the right result; lost: 0\n", len(texts), jobs)
	}
	return errors.Join(wrong...)
}
