package badrows

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var errRow, errServer = errors.New("row"), errors.New("server")

func isOfRow(err error) bool { return errors.Is(err, errRow) }

// TestHalve: the refused items are found, the others are done once, and an error that is no row's
// ends it.
func TestHalve(t *testing.T) {
	var ids []int64
	for i := range int64(1000) {
		ids = append(ids, i)
	}
	var done []int64
	calls := 0
	refused, err := HalveIDs(ids, isOfRow, func(part []int64) error {
		if calls++; slices.Contains(part, 3) || slices.Contains(part, 700) {
			return errRow
		}
		done = append(done, part...)
		return nil
	})
	if err != nil || len(refused) != 2 || refused[0].ID != 3 || refused[1].ID != 700 || len(done) != 998 || calls > 45 {
		t.Errorf("got %v, error %v, %d done, %d calls", refused, err, len(done), calls)
	}
	calls = 0
	if _, err := HalveIDs(ids, isOfRow, func([]int64) error { calls++; return errServer }); !errors.Is(err, errServer) || calls != 1 {
		t.Errorf("got error %v after %d calls, want the server's after one", err, calls)
	}
	if refused, err := HalveIDs(ids, isOfRow, func([]int64) error { return errRow }); !errors.Is(err, errRow) || len(refused) != maxFound {
		t.Errorf("all refused: got %d and error %v, want %d and an error", len(refused), err, maxFound)
	}
}

// TestKnown: a row is passed over for a minute, and logged once in it.
func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var known Known
		sleep := func() {
			ctx, cancel := context.WithTimeout(t.Context(), PassOver+1)
			defer cancel()
			<-ctx.Done()
		}
		for minute := range 2 {
			for range 3 {
				known.Note(log, "claim", []Row{{7, errRow}})
			}
			if ids := known.IDs(); !slices.Equal(ids, []int64{7}) || strings.Count(text.String(), "job=7") != minute+1 {
				t.Errorf("minute %d: got %v and log %s", minute+1, ids, text.String())
			}
			sleep()
			if ids := known.IDs(); len(ids) > 0 {
				t.Errorf("after a minute: %v", ids)
			}
		}
	})
}
