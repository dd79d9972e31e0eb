package browser

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// visits is how often a session asks for a page before it goes to the next one.
const visits = 3

// Visit is one answer that a session has waited for.
type Visit struct {
	Page      string // its name in Pages
	Took      time.Duration
	Unchanged bool // it was answered by "not modified"
	Late      bool // it said that some of its figures are old, or not known yet
	Failed    bool // it was no page, or there was none
}

// Crowd is sessions that walk over all pages of a dashboard.
type Crowd struct {
	sessions []*session

	mu      sync.Mutex
	visits  []Visit
	failure error
}

// NewCrowd returns n sessions. They begin at different pages.
func NewCrowd(root string, n int) (*Crowd, error) {
	c := &Crowd{}
	for i := range n {
		b, err := newBrowser(root)
		if err != nil {
			return nil, err
		}
		c.sessions = append(c.sessions, &session{browser: b, crowd: c, random: rand.New(rand.NewPCG(1, uint64(i))), page: i * len(walk) / n})
	}
	return c, nil
}

// Browse lets the sessions go on from where they were until ctx ends. They ask for their first
// pages within stagger, one after the other.
func (c *Crowd) Browse(ctx context.Context, stagger time.Duration) {
	var all sync.WaitGroup
	for i, s := range c.sessions {
		all.Go(func() {
			sleep(ctx, time.Duration(i)*stagger/time.Duration(len(c.sessions)))
			for ctx.Err() == nil {
				s.visit(ctx)
			}
			s.browser.close()
		})
	}
	all.Wait()
}

// Failure returns the error of the first answer that was no page, or nil.
func (c *Crowd) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Visits returns what the sessions have waited for.
func (c *Crowd) Visits() []Visit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.visits[:len(c.visits):len(c.visits)]
}

// Refresh is how long a session waits before it asks for another page, unless the page asks for
// more or less.
const Refresh = 3 * time.Second

// session is one person with a browser.
type session struct {
	browser *browser
	crowd   *Crowd
	random  *rand.Rand
	page    int    // where it is in walk
	asked   int    // how often it has asked for that page
	path    string // of that page
	etag    string
	body    string // of the last page that listed jobs
}

// visit asks for the page once, and waits as long as the page says before it asks again.
func (s *session) visit(ctx context.Context) {
	p := walk[s.page]
	if s.body == "" { // it has just begun, perhaps at a page to which only a list leads
		a, err := s.browser.get(ctx, "jobs?status=dead", "")
		if err != nil {
			sleep(ctx, Refresh)
			return
		}
		s.body = a.body
	}
	if s.asked == 0 {
		s.path, s.etag = p.path(s), ""
	}
	if s.path == "" { // there is no link to it
		s.next()
		return
	}
	from := time.Now()
	a, err := s.browser.get(ctx, s.path, s.etag)
	if err != nil {
		if ctx.Err() == nil {
			s.crowd.noteFailure(Visit{Page: p.Name, Took: time.Since(from), Failed: true}, err)
			s.next()
		}
		sleep(ctx, Refresh)
		return
	}
	s.crowd.note(Visit{Page: p.Name, Took: a.took, Unchanged: a.body == "", Late: strings.Contains(a.body, `<p class="late"`) || isAwaiting(a.body)})
	wait := Refresh
	if a.body != "" {
		wait = s.read(a)
	}
	if s.asked++; s.asked == visits || wait == 0 {
		s.next()
	}
	if wait == 0 {
		wait = Refresh
	}
	sleep(ctx, wait)
}

// isAwaiting reports whether a page says that values are being read.
func isAwaiting(page string) bool { return strings.Contains(page, `<p class="awaits"`) }

// every is how often a page refreshes itself, in seconds.
var every = regexp.MustCompile(`<main [^>]*data-every="(\d+)"`)

// read notes what a browser keeps of a page, and returns how often it refreshes itself.
func (s *session) read(a answer) time.Duration {
	s.etag = a.etag
	if strings.Contains(a.body, `<table class="jobs">`) {
		s.body = a.body
	}
	seconds := 0
	if m := every.FindStringSubmatch(a.body); m != nil {
		seconds, _ = strconv.Atoi(m[1])
	}
	return time.Duration(seconds) * time.Second
}

func (s *session) next() { s.page, s.asked = (s.page+1)%len(walk), 0 }

func (c *Crowd) note(v Visit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.visits = append(c.visits, v)
}

func (c *Crowd) noteFailure(v Visit, err error) {
	c.note(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = fmt.Errorf("page %s: %w", v.Page, err)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
