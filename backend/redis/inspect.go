package redis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Counts implements [driver.Inspector]. All its counts are exact.
func (b *Backend) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("count", err)
	}
	commands := make([]rueidis.Completed, len(b.tags))
	for p, tag := range b.tags {
		commands[p] = b.client.B().Hgetall().Key(tag + "count").Build()
	}
	var all []queue.StatusCount
	for _, r := range b.client.DoMulti(ctx, commands...) {
		counts, err := r.AsIntMap()
		if err != nil {
			return nil, failed("count", err)
		}
		for id, n := range counts {
			name, status, _ := strings.Cut(id, "\x00")
			all = append(all, queue.StatusCount{Queue: name, Status: queue.Status(status), Jobs: n, Exact: true})
		}
	}
	return driver.SumCounts(all), nil
}

// Tally implements [driver.Inspector]. It reads the jobs a page at a time.
func (b *Backend) Tally(ctx context.Context, which queue.Selection) (counts []queue.StatusCount, err error) {
	if err := cmp.Or(which.Check(driver.Statuses()...), ctx.Err()); err != nil {
		return nil, failed("tally", err)
	}
	statuses := which.Of(driver.Statuses()...)
	count := func(page []queue.Record, err error) error {
		for _, r := range page {
			if slices.Contains(statuses, r.Status) && which.Matches(&r) {
				counts = append(counts, queue.StatusCount{Queue: r.Queue, Status: r.Status, Jobs: 1, Exact: true})
			}
		}
		counts = driver.SumCounts(counts)
		return err
	}
	if which.IDs != nil {
		ids := slices.Compact(slices.Sorted(slices.Values(which.IDs)))
		which.IDs = nil
		for part := range slices.Chunk(ids, tallyPage) {
			if err := count(b.read(ctx, part, false)); err != nil {
				return nil, failed("tally", err)
			}
		}
		return counts, nil
	}
	f := queue.Filter{Queue: which.Queue, Kind: which.Kind, Group: which.Group, Key: which.Key, Status: which.Status, NoPayload: true, Limit: tallyPage}
	for {
		page, next, err := b.Jobs(ctx, f)
		if err := count(page, err); err != nil || next == 0 {
			return counts, err
		}
		f.Before = next
	}
}

// tallyPage is how many jobs Tally reads at once.
const tallyPage = 1000

// Jobs implements [driver.Inspector]. A call looks at a thousand jobs of each status in each
// partition, so a page may be short although others follow.
func (b *Backend) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, failed("list", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, failed("list", err)
	}
	ids, next, err := b.find(ctx, f)
	if err != nil {
		return nil, 0, failed("list", err)
	}
	page, err = b.read(ctx, ids, !f.NoPayload && !f.Bare)
	if err != nil {
		return nil, 0, failed("list", err)
	}
	for i := range page {
		page[i].History = nil
		if f.Bare {
			page[i].Key, page[i].LastError = "", ""
		}
	}
	return page, next, nil
}

// find returns the IDs of a page, and the Before of the next one.
func (b *Backend) find(ctx context.Context, f queue.Filter) (ids []int64, next int64, err error) {
	partitions, args := make([]int, len(b.tags)), make([][]string, len(b.tags))
	for p := range b.tags {
		partitions[p], args[p] = p, append([]string{b.before(p, f.UpTo())}, findArgs(f)...)
	}
	answers, err := messages(b.callAll(ctx, "find", partitions, args))
	if err != nil {
		return nil, 0, err
	}
	for p := range answers {
		in := readerOf(&answers[p])
		found, floor := in.next(), in.int()
		if in.err != nil {
			return nil, 0, in.err
		}
		seqs, err := found.AsIntSlice()
		if err != nil {
			return nil, 0, err
		}
		for _, seq := range seqs {
			ids = append(ids, b.idOf(p, seq))
		}
		if floor > 0 {
			next = max(next, b.idOf(p, floor))
		}
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id < next }) // a partition may have more there
	if len(ids) >= f.Limit {
		ids = ids[:f.Limit]
		next = ids[f.Limit-1]
	}
	return ids, next, nil
}

// before returns the number in a partition behind all jobs whose IDs are at most upTo.
func (b *Backend) before(p int, upTo int64) string {
	if upTo == math.MaxInt64 {
		return "+inf"
	}
	at, seq := b.locate(upTo)
	if upTo < 1 || p > at {
		return strconv.FormatInt(seq, 10)
	}
	return strconv.FormatInt(seq+1, 10)
}

// findArgs returns the arguments of lua/inspect.lua's find, without the first.
func findArgs(f queue.Filter) []string {
	return []string{
		strconv.Itoa(f.Limit), f.Queue, f.Kind, f.Group, f.Key, string(f.Status), strconv.Itoa(f.MinAttempts),
		bit(f.Expired), micros(f.RunningFor), bound(f.CreatedFrom), bound(f.CreatedTo), bound(f.FinishedFrom), bound(f.FinishedTo),
	}
}

// bound returns a bound of a time; "" means none. Stored times are whole microseconds, so a bound
// within one counts from the next.
func bound(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	us := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		us++
	}
	return strconv.FormatInt(us, 10)
}

// read returns the jobs with these IDs, in their order, without those that are deleted.
func (b *Backend) read(ctx context.Context, ids []int64, payloads bool) ([]queue.Record, error) {
	page := make([]queue.Record, 0, len(ids))
	if len(ids) == 0 {
		return page, nil
	}
	c := b.group(len(ids), []string{bit(payloads)}, func(i int) int64 { return ids[i] }, func(int) []string { return nil })
	answers, err := messages(b.callAll(ctx, "read", c.partitions, c.args))
	if err != nil {
		return nil, err
	}
	for i := range answers {
		rows, err := answers[i].ToArray()
		if err != nil {
			return nil, err
		}
		for k := range rows {
			rec, err := b.recordWithHistory(c.partitions[i], &rows[k])
			if err != nil {
				return nil, err
			}
			page = append(page, rec)
		}
	}
	slices.SortFunc(page, func(a, b queue.Record) int { return cmp.Compare(b.ID, a.ID) })
	return page, nil
}

// recordWithHistory reads an answer of lua/inspect.lua's read.
func (b *Backend) recordWithHistory(p int, m *rueidis.RedisMessage) (rec queue.Record, err error) {
	pair, err := m.ToArray()
	if err != nil {
		return rec, err
	}
	if len(pair) != 2 {
		return rec, fmt.Errorf("%d parts of a job", len(pair))
	}
	if rec, err = b.record(p, &pair[0]); err != nil {
		return rec, err
	}
	err = readEach(&pair[1], func(in *reader) {
		rec.History = append(rec.History, queue.Failure{
			At: in.time(), Attempt: int(in.int()), Redrives: int(in.int()), Worker: in.text(), Error: in.text(), Stack: in.text(),
			Took: time.Duration(in.int()) * time.Microsecond,
		})
	})
	return rec, err
}

// Job implements [driver.Inspector].
func (b *Backend) Job(ctx context.Context, id int64) (rec queue.Record, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return rec, false, failed("look up", err)
	}
	found, err := b.read(ctx, []int64{id}, true)
	if err != nil {
		return rec, false, failed("look up", err)
	}
	if len(found) == 0 {
		return rec, false, nil
	}
	return found[0], true, nil
}

// Backlogs implements [driver.Inspector]. Of ordered jobs it counts the first of each group, and
// of each kind the jobs of a hundred priorities.
func (b *Backend) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("backlog", err)
	}
	answers, err := messages(b.onEach(ctx, "backlogs"))
	if err != nil {
		return nil, failed("backlog", err)
	}
	oldest := make(map[string]time.Duration)
	for p := range answers {
		err := readEach(&answers[p], func(in *reader) {
			name, age := in.text(), time.Duration(in.int())*time.Microsecond
			oldest[name] = max(oldest[name], age)
		})
		if err != nil {
			return nil, failed("backlog", err)
		}
	}
	all := make([]driver.Backlog, 0, len(oldest))
	for name, age := range oldest {
		all = append(all, driver.Backlog{Queue: name, Age: age})
	}
	slices.SortFunc(all, func(a, b driver.Backlog) int { return cmp.Compare(a.Queue, b.Queue) })
	return all, nil
}
