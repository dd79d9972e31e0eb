// Package badrows isolates rows that make a statement for many rows fail: a trigger of the
// application's raises for one of them, or one is damaged.
package badrows

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// PassOver is for how long a bad row is left alone. It is then tried, and logged, again.
	PassOver = time.Minute
	// maxFound is how many bad rows one call looks for. A later call finds the others.
	maxFound = 100
	// maxKnown is how many bad rows are passed over at most.
	maxKnown = 10_000
)

// Row is a row that a statement has refused.
type Row struct {
	ID  int64
	Err error
}

// Error is the error of a call that is done but for Rows.
type Error struct{ Rows []Row }

// Error names the jobs, the first ten of them, with the cause of the first.
func (e *Error) Error() string {
	const shown = 10
	var ids []string
	for _, r := range e.Rows[:min(len(e.Rows), shown)] {
		ids = append(ids, strconv.FormatInt(r.ID, 10))
	}
	if more := len(e.Rows) - shown; more > 0 {
		ids = append(ids, fmt.Sprintf("and %d others", more))
	}
	return fmt.Sprintf("refused for job %s: %v", strings.Join(ids, ", "), e.Rows[0].Err)
}

// Unwrap returns the cause of the first row's refusal.
func (e *Error) Unwrap() error { return e.Rows[0].Err }

// AsError returns an [*Error] of the rows, or nil if there are none.
func AsError(rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	return &Error{Rows: rows}
}

// Halve calls do with all items. After an error that isOfRow says a row has caused, it calls do
// with each half, until it has found the items that are refused. do must then have had no effect.
// err is any other error, or the last one after a hundred refused items.
func Halve[T any](items []T, id func(T) int64, isOfRow func(error) bool, do func(part []T) error) (refused []Row, err error) {
	var try func(part []T) error
	try = func(part []T) error {
		err := do(part)
		switch {
		case err == nil || !isOfRow(err) || len(refused) >= maxFound:
			return err
		case len(part) == 1:
			refused = append(refused, Row{id(part[0]), err})
			return nil
		}
		half := len(part) / 2
		return cmp.Or(try(part[:half]), try(part[half:]))
	}
	if len(items) == 0 {
		return nil, nil
	}
	err = try(items)
	return refused, err
}

// HalveIDs is [Halve] for ids.
func HalveIDs(ids []int64, isOfRow func(error) bool, do func(part []int64) error) ([]Row, error) {
	return Halve(ids, func(id int64) int64 { return id }, isOfRow, do)
}

// Known are the bad rows of one operation, each for [PassOver]. The zero value knows none. It is
// safe for concurrent use.
type Known struct {
	any   atomic.Bool // spares the lock where there are none
	mu    sync.Mutex
	until map[int64]time.Time
}

// IDs returns the rows to pass over, in ascending order.
func (k *Known) IDs() (ids []int64) {
	if !k.any.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for id, until := range k.until {
		if now.After(until) {
			delete(k.until, id)
			continue
		}
		ids = append(ids, id)
	}
	k.any.Store(len(k.until) > 0)
	slices.Sort(ids)
	return ids
}

// Note records rows to pass over, and logs each that was not among them.
func (k *Known) Note(log *slog.Logger, operation string, rows []Row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, r := range rows {
		if now.Before(k.until[r.ID]) || len(k.until) >= maxKnown {
			continue
		}
		if k.until == nil {
			k.until = make(map[int64]time.Time)
		}
		k.until[r.ID] = now.Add(PassOver)
		k.any.Store(true)
		cmp.Or(log, slog.Default()).Error("errand: the database refuses an operation for a job, others go on without it, will retry",
			"operation", operation, "job", r.ID, "retry_in", PassOver, "error", r.Err)
	}
}
