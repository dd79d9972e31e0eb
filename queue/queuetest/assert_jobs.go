package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// stored is a job as the assertions see it.
type stored = memory.Stored

// inMemory is the queue in memory, or a type that embeds it.
type inMemory interface {
	Stored(kind string) []memory.Stored
}

// list returns the jobs of the kind, or all if it is "", newest first.
func (s *search) list(ctx context.Context, kind string) (jobs []stored, err error) {
	if s.memory != nil {
		return s.memory.Stored(kind), nil
	}
	inspector, ok := driver.As[driver.Inspector](s.q)
	if !ok {
		return nil, fmt.Errorf("queuetest: %T is no driver.Inspector and wraps none", s.q)
	}
	filter := queue.Filter{Kind: kind, Limit: 1000}
	for {
		page, next, err := inspector.Jobs(ctx, filter)
		if err != nil {
			return jobs, err
		}
		for _, r := range page {
			jobs = append(jobs, stored{Record: r})
		}
		if next == 0 {
			return jobs, nil
		}
		filter.Before = next
	}
}

// miss is a job of the kind that does not match, with each reason.
type miss struct {
	stored
	why []string
}

// sift separates the jobs that match from the others, which it sorts by how many reasons they have.
func (s *search) sift(ctx context.Context, jobs []stored) (found []stored, misses []miss, err error) {
	for _, j := range jobs {
		if err := s.decodeJob(ctx, &j); err != nil {
			if s.shown == "" {
				return nil, nil, fmt.Errorf("queuetest: Decoded: job %d: %w", j.ID, err)
			}
			misses = append(misses, miss{j, []string{"not decoded: " + queue.ErrorText(err)}})
			continue
		}
		why, err := s.why(j)
		if err != nil {
			return nil, nil, err
		}
		if len(why) == 0 {
			found = append(found, j)
		} else {
			misses = append(misses, miss{j, why})
		}
	}
	slices.SortStableFunc(misses, func(a, b miss) int { return cmp.Compare(len(a.why), len(b.why)) })
	return found, misses, nil
}

var errNotPassedOn = errors.New("the middleware has not passed it on")

// decodeJob replaces the job by what the middleware of Decoded passes on.
func (s *search) decodeJob(ctx context.Context, j *stored) error {
	if len(s.decoding) == 0 {
		return nil
	}
	var passedOn *queue.Job
	h := queue.Chain(queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		passedOn = job
		return nil
	}), s.decoding...)
	if err := h.HandleJob(ctx, &j.Job); err != nil {
		return err
	}
	if passedOn == nil {
		return errNotPassedOn
	}
	j.Job = *passedOn
	return nil
}

// why returns the reasons why the job does not match; none if it does.
func (s *search) why(j stored) (reasons []string, err error) {
	if s.shown != "" {
		args, err := decode(j.Payload)
		if err != nil {
			return nil, fmt.Errorf("queuetest: payload of job %d: %w", j.ID, err)
		}
		for _, d := range diff("", args, s.args) {
			if !slices.ContainsFunc(s.except, func(path string) bool { return isWithin(d.path, path) }) {
				reasons = append(reasons, d.String())
			}
		}
	}
	if encoding := j.Headers[queue.EncodingHeader]; encoding != "" && len(reasons) > 0 && len(s.decoding) == 0 {
		reasons = []string{fmt.Sprintf("encrypted or compressed (%s): use queuetest.Decoded", encoding)}
	}
	if j.Open && !s.through {
		reasons = append(reasons, "in a transaction that has not committed")
	}
	for _, check := range s.checks {
		if reason := check(j); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return reasons, nil
}
