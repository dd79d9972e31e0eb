package redis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/fleet"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// statsArgs returns the arguments of lua/fleet.lua's report for the statistics of reports. It
// leaves out minutes that the next Prune would remove.
func statsArgs(reports []driver.WorkerReport) (args []string) {
	for _, r := range reports {
		for _, s := range r.Stats {
			if s.Age < driver.StatsKept {
				args = append(args, s.Queue+"\x00"+s.Kind, micros(s.Age), numbers(s.Stats))
			}
		}
	}
	return args
}

// numbers returns the stored form of statistics: see lua/stats.lua.
func numbers(s queue.Stats) string {
	var text strings.Builder
	for i, part := range [][]int64{
		{s.Done, s.Failed, s.Dead, s.Lost, sqlkit.Microseconds(s.Ran), sqlkit.Microseconds(s.Waited)}, s.RunTimes, s.WaitTimes,
	} {
		if i > 0 {
			text.WriteByte('|')
		}
		for k, n := range part {
			if k > 0 {
				text.WriteByte(' ')
			}
			text.WriteString(strconv.FormatInt(n, 10))
		}
	}
	return text.String()
}

// statsOf returns the statistics in a text of numbers, whose histograms may be missing.
func statsOf(text string) (s queue.Stats, err error) {
	var lists [3][]int64
	for i, part := range strings.SplitN(text, "|", len(lists)) {
		for digits := range strings.FieldsSeq(part) {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return s, err
			}
			lists[i] = append(lists[i], n)
		}
	}
	c := lists[0]
	if len(c) != 6 {
		return s, fmt.Errorf("statistics of %d numbers", len(c))
	}
	return queue.Stats{
		Done: c[0], Failed: c[1], Dead: c[2], Lost: c[3], Ran: sqlkit.Duration(c[4]), Waited: sqlkit.Duration(c[5]),
		RunTimes: lists[1], WaitTimes: lists[2],
	}, nil
}

// Stats implements [driver.Statistician]. It reads at most two thousand statistics a call.
func (b *Backend) Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error) {
	const operation = "statistics"
	if err := cmp.Or(f.Check(), ctx.Err()); err != nil {
		return nil, failed(operation, err)
	}
	first, behind := "0", strconv.Itoa(math.MaxInt32) // in the year 6053
	if !f.From.IsZero() {
		first = minuteOf(f.From)
	}
	if !f.To.IsZero() {
		behind = minuteOf(f.To.Add(time.Minute - 1))
	}
	sum := fleet.NewSum(f)
	_, err := b.pages(ctx, "stats", common, first, []string{behind, bit(f.Times)}, func(_ int64, in *reader) {
		minute, id, text := in.int(), in.text(), in.text()
		s, err := statsOf(text)
		if in.err = cmp.Or(in.err, err); in.err != nil {
			return
		}
		name, kind, _ := strings.Cut(id, "\x00")
		sum.Add(queue.StatsRecord{At: time.Unix(60*minute, 0).UTC(), Queue: name, Kind: kind, Stats: s})
	})
	if err != nil {
		return nil, failed(operation, err)
	}
	return sum.Records(), nil
}

// minuteOf returns the minute of a time, counted from 1970.
func minuteOf(at time.Time) string { return strconv.FormatInt(at.Unix()/60, 10) }
