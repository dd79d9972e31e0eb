package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/fleet"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue/driver"
)

// common is the partition that has what is there once for the namespace.
const common = 0

// ReportWorkers implements [driver.Fleet], and adds statistics for [driver.Statistician].
func (b *Backend) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	const operation = "report workers"
	if err := driver.CheckReports(reports...); err != nil {
		return failed(operation, err)
	}
	if len(reports) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return failed(operation, err)
	}
	args := []string{strconv.Itoa(len(reports))}
	for _, r := range reports {
		info, err := json.Marshal(r.WorkerInfo)
		if err != nil {
			return failed(operation, err)
		}
		args = append(args, r.Name, bit(r.Stopped), string(info), micros(r.Age), micros(r.ClaimAge), micros(r.DrainAge))
	}
	if _, err := b.call(ctx, "report", common, append(args, statsArgs(reports)...)...); err != nil {
		return failed(operation, err)
	}
	return nil
}

// Workers implements [driver.Fleet]. It asks for some hundred workers a call.
func (b *Backend) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	const operation = "list workers"
	if err := ctx.Err(); err != nil {
		return nil, failed(operation, err)
	}
	found := make(map[string]driver.WorkerRecord)
	_, err := b.pages(ctx, "workers", common, "0", nil, func(at int64, in *reader) {
		name, info := in.text(), in.text()
		w := driver.WorkerRecord{StartedAt: in.time(), ClaimedAt: in.time(), DrainingAt: in.time()}
		seen := in.int()
		w.SeenAt = timeOf(seen)
		found[name] = sqlkit.Worker(w, name, []byte(info), at-seen)
	})
	if err != nil {
		return nil, failed(operation, err)
	}
	all := make([]driver.WorkerRecord, 0, len(found))
	for _, w := range found {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b driver.WorkerRecord) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Runs implements [driver.Fleet]. It asks all partitions at once for the first page of their
// running jobs, and then one after the other for further pages.
func (b *Backend) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	const operation = "list runs"
	if err := cmp.Or(driver.CheckRuns(most, workers), ctx.Err()); err != nil {
		return nil, failed(operation, err)
	}
	first, err := messages(b.onEach(ctx, "runs", append([]string{"0"}, workers...)...))
	if err != nil {
		return nil, failed(operation, err)
	}
	found := make(map[int64]driver.RunningJob)
	for p, page := range first {
		read := func(at int64, in *reader) {
			r := driver.RunningJob{Worker: in.text(), ID: b.idOf(p, in.int()), Queue: in.text(), Kind: in.text(), Attempt: int(in.int())}
			since := in.int()
			r.Since, r.Took = timeOf(since), time.Duration(max(at-since, 0))*time.Microsecond
			found[r.ID] = r
		}
		_, cursor, err := readPage(page, read)
		if err == nil && cursor != "0" {
			_, err = b.pages(ctx, "runs", p, cursor, workers, read)
		}
		if err != nil {
			return nil, failed(operation, err)
		}
	}
	all := make([]driver.RunningJob, 0, len(found))
	for _, r := range found {
		all = append(all, r)
	}
	return fleet.FirstRuns(all, most), nil
}

// pages calls a function on a partition for one page after the other, from a cursor on. It calls
// read with the server's time and the fields of each element, and returns the time of the last
// page.
func (b *Backend) pages(ctx context.Context, function string, p int, cursor string, args []string, read func(at int64, in *reader)) (at int64, err error) {
	for {
		page, err := b.call(ctx, function, p, append([]string{cursor}, args...)...)
		if err != nil {
			return 0, err
		}
		if at, cursor, err = readPage(page, read); err != nil || cursor == "0" {
			return at, err
		}
	}
}

// readPage reads a page: the server's time, the cursor of the next page or "0", and the elements.
func readPage(page rueidis.RedisMessage, read func(at int64, in *reader)) (at int64, cursor string, err error) {
	in := readerOf(&page)
	at, cursor = in.int(), in.text()
	list := in.next()
	if in.err != nil {
		return 0, "", in.err
	}
	return at, cursor, readEach(list, func(in *reader) { read(at, in) })
}

// readEach calls read with the fields of each element of a list.
func readEach(list *rueidis.RedisMessage, read func(in *reader)) error {
	elements, err := list.ToArray()
	if err != nil {
		return err
	}
	for i := range elements {
		in := readerOf(&elements[i])
		if read(in); in.err != nil {
			return in.err
		}
	}
	return nil
}
