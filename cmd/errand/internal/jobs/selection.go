package jobs

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// selection is which jobs an operation is for: IDs, or a filter.
type selection struct {
	ids    []int64
	filter queue.Filter
	max    int
	yes    bool
	dryRun bool
}

// maxNamed is how many jobs may be named by ID without a question.
const maxNamed = 100

// check returns an error if it is not clear which jobs are meant.
func (s selection) check(op *operation, hasMax bool) error {
	var zero queue.Filter
	switch {
	case len(s.ids) > 0 && s.filter != zero:
		return cli.Usagef("IDs and filters: give one of them")
	case len(s.ids) > maxNamed:
		return cli.Usagef("%d IDs: at most %d", len(s.ids), maxNamed)
	case len(s.ids) > 0:
		return nil
	case s.filter.Queue == "" && s.filter.Kind == "" && s.filter.Group == "" && s.filter.Key == "" && !s.filter.HasTimes():
		return cli.Usagef("which jobs? Give IDs, or at least one of --queue, --kind, --group, --key and a time")
	case s.filter.Status != "" && !slices.Contains(op.statuses, s.filter.Status):
		return cli.Usagef("--status %s: %s acts on %s", s.filter.Status, op.name, joinStatuses(op.statuses))
	case s.max < 1 || s.max > math.MaxInt32:
		return cli.Usagef("--max %d: between 1 and %d", s.max, math.MaxInt32)
	case s.yes && !hasMax:
		return cli.Usagef("--yes needs --max: how many jobs at most")
	}
	return checkFilter(s.filter, op.statuses)
}

func joinStatuses(list []queue.Status) string {
	var b strings.Builder
	for i, s := range list {
		switch {
		case i > 0 && i == len(list)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String() + " jobs"
}

// choose lists the jobs that the filters choose, at most s.max of them.
func (a app) choose(ctx context.Context, d *dburl.Database, inspector driver.Inspector, op *operation, s selection) (jobs []queue.Record, err error) {
	look := func(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
		err = a.Step(ctx, d, func(ctx context.Context) (err error) {
			page, next, err = inspector.Jobs(ctx, f)
			return err
		})
		return page, next, err
	}
	list := op.usual
	if s.filter.Status != "" {
		list = []queue.Status{s.filter.Status}
	}
	for _, status := range list {
		f := s.filter
		f.Status, f.Limit, f.Bare = status, s.max+1-len(jobs), f.Key == ""
		if f.Expired || f.RunningFor > 0 {
			if status != queue.StatusRunning {
				continue
			}
		}
		if (!f.FinishedFrom.IsZero() || !f.FinishedTo.IsZero()) && !hasEnded(status) {
			continue
		}
		found, next, err := find(ctx, look, f, 1<<20)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, found...)
		if len(jobs) > s.max || next != 0 {
			return nil, cli.Refusedf("more than %d jobs: narrow the filters, or raise --max", s.max)
		}
	}
	if len(jobs) == 0 {
		return nil, cli.Nothingf("no %s matches", strings.TrimSuffix(joinStatuses(list), "s"))
	}
	slices.SortFunc(jobs, func(a, b queue.Record) int { return cmp.Compare(b.ID, a.ID) })
	return jobs, nil
}

// details reads jobs that were listed bare. It leaves out jobs that have been deleted meanwhile.
func (a app) details(ctx context.Context, d *dburl.Database, inspector driver.Inspector, jobs []queue.Record) (list []queue.Record, err error) {
	err = a.Step(ctx, d, func(ctx context.Context) error {
		for _, r := range jobs {
			r, ok, err := inspector.Job(ctx, r.ID)
			if err != nil {
				return err
			}
			if ok {
				list = append(list, r)
			}
		}
		return nil
	})
	return list, err
}

// text returns the selection as text, such as "kind=email.welcome group=acme".
func (s selection) text() string {
	f := s.filter
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	for _, id := range s.ids {
		add("id", strconv.FormatInt(id, 10))
	}
	add("queue", f.Queue)
	add("kind", f.Kind)
	add("status", string(f.Status))
	add("key", f.Key)
	add("group", f.Group)
	add("created-since", cli.TimeText(f.CreatedFrom))
	add("created-until", cli.TimeText(f.CreatedTo))
	add("ended-since", cli.TimeText(f.FinishedFrom))
	add("ended-until", cli.TimeText(f.FinishedTo))
	if f.MinAttempts > 0 {
		add("min-attempts", strconv.Itoa(f.MinAttempts))
	}
	if f.Expired {
		add("expired", "true")
	}
	if f.RunningFor > 0 {
		add("running-for", f.RunningFor.String())
	}
	return strings.Join(parts, " ")
}
