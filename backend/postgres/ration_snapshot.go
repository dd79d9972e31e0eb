package postgres

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// snapshot tells which transactions were open at a time of the server's clock. sql/transactions.sql
// reads it.
type snapshot struct {
	at   time.Time
	next int64   // transactions with this number or a higher one began later
	open []int64 // transactions with a lower number that may have been open
}

var errSnapshot = errors.New("cannot read the snapshot")

// parseSnapshot reads the text of a pg_snapshot, xmin:xmax:open,open. Transactions from xmax on may
// be open, although the text does not list them.
func parseSnapshot(text string, next int64, at time.Time) (s snapshot, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, fmt.Errorf("%w: %q", errSnapshot, text)
	}
	s = snapshot{at: at, next: next}
	for number := range strings.SplitSeq(parts[2], ",") {
		if number == "" {
			continue
		}
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return s, fmt.Errorf("%w: %w", errSnapshot, err)
		}
		s.open = append(s.open, id)
	}
	xmax, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || next-xmax > maxUnlisted {
		return s, fmt.Errorf("%w: %q, next is %d", errSnapshot, text, next)
	}
	for id := xmax; id < next; id++ {
		s.open = append(s.open, id)
	}
	return s, nil
}

// maxUnlisted bounds the memory for transactions that a snapshot does not list. Usually there are
// about as many as connections.
const maxUnlisted = 100_000

// transactions records which were open at a ration's last claim. Their jobs become visible when
// they end, with due times as old as they are.
type transactions struct {
	last  snapshot
	since map[int64]time.Time // after when each open one began; zero if that is not known
}

// note records a new snapshot. Jobs that have become visible since the last one are due after the
// time that it returns, unless their due time was set to a time before their transaction. The time
// is zero if it is not known.
func (t *transactions) note(s snapshot) (after time.Time) {
	since := make(map[int64]time.Time, len(s.open))
	for _, id := range s.open {
		if began, known := t.since[id]; known {
			since[id] = began
		} else {
			since[id] = t.last.at
		}
	}
	after = t.last.at
	for id, began := range t.since {
		if _, open := since[id]; !open && began.Before(after) {
			after = began
		}
	}
	t.last, t.since = s, since
	return after
}

// forget makes the next snapshot the first one.
func (t *transactions) forget() { *t = transactions{} }
