package remote

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// longPoll is how long a gateway is asked to wait.
	longPoll = 25 * time.Second
	// retryPoll is how long after a long poll has failed, to hear soon that it works again.
	retryPoll = time.Second
	// announcementLasts is how long an announcement of Sleep is valid.
	announcementLasts = time.Minute
	// longestPause is the longest pause after a long poll that has failed.
	longestPause = 2 * time.Second
)

// sleeper is a worker as its gateway has to know it: only while it sleeps does it keep a request
// waiting there, because gateways wake workers one by one.
type sleeper struct {
	key string // in Queue.sleepers

	mu        sync.Mutex
	kinds     []string           // of the last claim
	until     time.Time          // until when it sleeps; zero: it does not
	empty     bool               // a claim came back empty since it fell asleep
	listeners int                // calls of Listen
	polls     int                // requests that wait on a gateway
	asleep    context.Context    // ends when it wakes up; nil if it has never slept
	wakeUp    context.CancelFunc // ends asleep
	signal    chan struct{}      // it has fallen asleep
	failure   error              // why at least two long polls in sequence have failed; nil: they have not
}

// keysOf returns what the keys of a worker's sleepers begin with.
func keysOf(worker string) string { return worker + "\n" }

// sleeperOf returns the sleeper of that worker, whose name is unique among the workers of its
// queues.
func (q *Queue) sleeperOf(worker string, queues []string) *sleeper {
	key := keysOf(worker) + strings.Join(slices.Sorted(slices.Values(queues)), "\n")
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.sleepers[key]
	if s == nil {
		s = &sleeper{key: key, signal: make(chan struct{}, 1)}
		q.sleepers[key] = s
	}
	return s
}

// forget drops what is known of a worker that has stopped.
func (q *Queue) forget(s *sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners--; s.listeners == 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.sleepers[s.key] == s {
			delete(q.sleepers, s.key)
		}
	}
}

// isPoll notes a claim, and reports whether the worker only looks again: it sleeps, a claim since
// then was empty, and a gateway would wake it. A long poll after others that have failed may fail.
func (s *sleeper) isPoll(kinds []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isSame := slices.Equal(s.kinds, kinds)
	s.kinds = slices.Clone(kinds)
	return isSame && s.empty && s.polls > 0 && s.failure == nil && time.Now().Before(s.until)
}

// noteClaim notes how many jobs a claim has brought. A worker with jobs does not sleep.
func (s *sleeper) noteClaim(jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty = jobs == 0; !s.empty {
		s.awake()
	}
}

// awake notes that the worker does not sleep. The caller holds s.mu.
func (s *sleeper) awake() {
	s.until = time.Time{}
	if s.asleep != nil {
		s.wakeUp()
	}
}

// Sleep implements [driver.Waiter].
func (q *Queue) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	in := wire.SleepRequest{Queues: queues, Worker: worker}
	var out wire.SleepAnswer
	if err := q.do(ctx, call{operation: "sleep", method: http.MethodPost, path: "/v1/sleep", in: in, out: &out}); err != nil {
		return 0, err
	}
	s := q.sleeperOf(worker, queues)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep == nil || s.asleep.Err() != nil {
		s.asleep, s.wakeUp = context.WithCancel(context.Background())
	}
	now := time.Now()
	s.empty = s.empty && s.polls > 0 && now.Before(s.until) // it has slept before, and nobody has woken it
	s.until = now.Add(announcementLasts)
	select {
	case s.signal <- struct{}{}:
	default:
	}
	return out.Next, nil
}

// Listen implements [driver.Waiter] by requests that wait on a gateway. It signals jobs only:
// gateways leave the paused kinds out of claims, and tell with Extend what to cancel.
func (q *Queue) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	s := q.sleeperOf(worker, queues)
	s.mu.Lock()
	s.listeners++
	s.mu.Unlock()
	defer q.forget(s)
	pause := time.Duration(0)
	for ctx.Err() == nil {
		poll, end := s.begin(ctx)
		if poll == nil {
			select {
			case <-s.signal:
			case <-ctx.Done():
			}
			continue
		}
		wait := longPoll
		if pause > 0 {
			wait = retryPoll
		}
		woken, err := q.awaitWake(poll, worker, queues, s, wait)
		isStopped := poll.Err() != nil
		end(woken || err != nil)
		switch {
		case isStopped:
		case codeOf(err) == wire.CodeNotSupported:
			return fmt.Errorf("remote: listen: %w", err)
		case err != nil:
			if pause > 0 {
				s.noteFailure(err)
			}
			pause = min(max(2*pause, 100*time.Millisecond), longestPause)
			sleep(ctx, pause)
			tell(driver.Signal{Jobs: true}) // the gateway that is asked next does not know what this one has missed
		default:
			pause = 0
			s.noteFailure(nil)
			if woken {
				tell(driver.Signal{Jobs: true})
			}
		}
	}
	return nil
}

// noteFailure notes why long polls fail, or with nil that one has worked.
func (s *sleeper) noteFailure(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// CheckListen implements [driver.Waiter]. A single long poll that fails is no error: a
// gateway has ended, and the next one is asked at once.
func (q *Queue) CheckListen(worker string) error {
	q.mu.Lock()
	var found []*sleeper
	for key, s := range q.sleepers {
		if strings.HasPrefix(key, keysOf(worker)) {
			found = append(found, s)
		}
	}
	q.mu.Unlock()
	for _, s := range found { // their locks come before that of q: see forget
		s.mu.Lock()
		err := s.failure
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// begin begins a long poll, if the worker sleeps; else it returns nil. The context ends when the
// worker wakes up. The caller calls end, and says whether the worker is awake.
func (s *sleeper) begin(ctx context.Context) (poll context.Context, end func(isAwake bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.until) {
		return nil, nil
	}
	poll, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.asleep, cancel)
	s.polls++
	return poll, func(isAwake bool) {
		unlink()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.polls--
		if isAwake {
			s.awake()
		}
	}
}

// awaitWake asks a gateway to answer when the worker should claim, or after wait.
func (q *Queue) awaitWake(ctx context.Context, worker string, queues []string, s *sleeper, wait time.Duration) (woken bool, err error) {
	s.mu.Lock()
	kinds := s.kinds
	s.mu.Unlock()
	in := wire.WaitRequest{Queues: queues, Kinds: kinds, Worker: worker, Wait: wait}
	var out wire.WaitAnswer
	c := call{operation: "listen", method: http.MethodPost, path: "/v1/wait", in: in, out: &out, wait: wait, isForNews: true}
	err = q.do(ctx, c)
	return out.Woken, err
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
