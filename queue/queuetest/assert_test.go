package queuetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

func TestWantJobOfEveryStatus(t *testing.T) {
	q := newLetters(t, letter{UserID: 1}, letter{UserID: 2}, letter{UserID: 3}, letter{UserID: 4}, letter{UserID: 2})
	held := claim(t, q, 3, 3)
	settle(t, q, nil, queue.Outcome{Job: held[0], Action: queue.Done})
	settle(t, q, nil, queue.Outcome{Job: held[1], Action: queue.Dead, Err: errors.New("no such user")})
	tests := []struct {
		user   int64
		id     int64
		status queue.Status
	}{
		{1, 1, queue.StatusCompleted}, {2, 5, queue.StatusPending}, // the newest of two
		{3, 3, queue.StatusRunning}, {4, 4, queue.StatusPending},
	}
	for _, tt := range tests {
		got := queuetest.WantJob(t, q, letters, letter{UserID: tt.user})
		if got.ID != tt.id || got.Status != tt.status {
			t.Errorf("job for user %d: got %d, %s; want %d, %s", tt.user, got.ID, got.Status, tt.id, tt.status)
		}
	}
	dead := func(r queue.Record) error {
		if r.Status != queue.StatusDead {
			return errors.New("alive")
		}
		return nil
	}
	if got := queuetest.WantJob(t, q, letters, letter{UserID: 2}, queuetest.Where(dead)); got.LastError != "no such user" {
		t.Errorf("LastError of the dead job: got %q, want no such user", got.LastError)
	}
}

func TestWantJobOtherArguments(t *testing.T) {
	long := strings.Repeat("x", 500)
	tests := []struct {
		name string
		have []letter
		want letter
		says string
	}{
		{"nearest first", []letter{{UserID: 40, Plan: "free"}, {UserID: 41, Plan: "pro"}}, letter{UserID: 42, Plan: "pro"},
			`no job email.welcome with {"UserID":42,"Plan":"pro"} was enqueued; nearest of 2:
  job 2 (pending): UserID: got 41, want 42
  job 1 (pending): Plan: got "free", want "pro"; UserID: got 40, want 42`},
		{"three of four, the newest of those alike", []letter{{UserID: 1}, {UserID: 2}, {UserID: 3}, {UserID: 4}}, letter{UserID: 5},
			`no job email.welcome with {"UserID":5} was enqueued; nearest of 4:
  job 4 (pending): UserID: got 4, want 5
  job 3 (pending): UserID: got 3, want 5
  job 2 (pending): UserID: got 2, want 5`},
		{"members and elements", []letter{{Plan: "<free>", Tags: []string{"a", "b"}}}, letter{Tags: []string{"a", "c", "d"}},
			`no job email.welcome with {"UserID":0,"Tags":["a","c","d"]} was enqueued; nearest of 1:
  job 1 (pending): Plan: got "<free>", want none; Tags[1]: got "b", want "c"; Tags[2]: got none, want "d"`},
		{"many", []letter{{Tags: strings.Split("abcdefg", "")}}, letter{Tags: strings.Split("tuvwxyz", "")},
			`no job email.welcome with {"UserID":0,"Tags":["t","u","v","w","x","y","z"]} was enqueued; nearest of 1:
  job 1 (pending): Tags[0]: got "a", want "t"; Tags[1]: got "b", want "u"; Tags[2]: got "c", want "v"; Tags[3]: got "d", want "w"; Tags[4]: got "e", want "x"; and 2 more`},
		{"long", []letter{{Plan: long + "1" + long}}, letter{Plan: long + "2" + long},
			`no job email.welcome with {"UserID":0,"Plan":"` + long[:400-len(`{"UserID":0,"Plan":"`)] + `… was enqueued; nearest of 1:
  job 1 (pending): Plan: got …` + long[:20] + "1" + long[:79] + `…, want …` + long[:20] + "2" + long[:79] + `…`},
		{"beyond the exactness of a float", []letter{{UserID: 1<<53 + 1}}, letter{UserID: 1 << 53},
			`no job email.welcome with {"UserID":9007199254740992} was enqueued; nearest of 1:
  job 1 (pending): UserID: got 9007199254740993, want 9007199254740992`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newLetters(t, tt.have...)
			wantMessage(t, "Fatal: "+tt.says, func(t testing.TB) { queuetest.WantJob(t, q, letters, tt.want) })
		})
	}
}

// TestWantJobByOptions: each option lets the right job pass, and says of another
// whose arguments are right what is wrong with it.
func TestWantJobByOptions(t *testing.T) {
	tests := []struct {
		name string
		good func(*queue.Job)
		opt  queuetest.Option
		says string // of a job without anything good
	}{
		{"queue", func(j *queue.Job) { j.Queue = "critical" }, queuetest.InQueue("critical"), "in queue default, want critical"},
		{"delay", func(j *queue.Job) { j.Delay = time.Hour }, queuetest.DueIn(time.Hour), "due 0s after it was enqueued, want 1h0m0s"},
		{"time", func(j *queue.Job) { j.ScheduledAt = time.Now().Add(time.Hour) }, queuetest.DueIn(time.Hour), "due 0s after it was enqueued, want 1h0m0s"},
		{"where", func(j *queue.Job) { j.Key = "a" }, queuetest.Where(keyIs("a")), `key "", want "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newLetters(t, letter{UserID: 42})
			wantMessage(t, `Fatal: no job email.welcome with {"UserID":42} was enqueued; nearest of 1:
  job 1 (pending): `+tt.says, func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}, tt.opt) })
			good := letters.New(letter{UserID: 42})
			tt.good(good)
			enqueue(t, q, nil, good)
			if got := queuetest.WantJob(t, q, letters, letter{UserID: 42}, tt.opt); got.ID != good.ID {
				t.Errorf("got job %d, want %d", got.ID, good.ID)
			}
			wantMessage(t, "Error: 1 job email.welcome was enqueued, want none:\n  job 2 (pending): {\"UserID\":42}",
				func(t testing.TB) { queuetest.WantNoJob(t, q, letters, tt.opt) })
		})
	}
}

func keyIs(want string) func(queue.Record) error {
	return func(r queue.Record) error {
		if r.Key != want {
			return fmt.Errorf("key %q, want %q", r.Key, want)
		}
		return nil
	}
}

// TestWantJobOptionsAddUp: a job has to fit all options; arguments and options
// count alike for what is nearest.
func TestWantJobOptionsAddUp(t *testing.T) {
	q := newLetters(t, letter{UserID: 42}, letter{UserID: 41})
	job := letters.New(letter{UserID: 42})
	job.Queue = "critical"
	enqueue(t, q, nil, job)
	wantMessage(t, `Fatal: no job email.welcome with {"UserID":42} was enqueued; nearest of 3:
  job 3 (pending): key "", want "a"
  job 1 (pending): in queue default, want critical; key "", want "a"
  job 2 (pending): UserID: got 41, want 42; in queue default, want critical; key "", want "a"`, func(t testing.TB) {
		queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.InQueue("critical"), queuetest.Where(keyIs("a")))
	})
}

func TestWantJobOfOtherKind(t *testing.T) {
	q := newLetters(t)
	ask := func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}) }
	wantMessage(t, "Fatal: no job email.welcome was enqueued, nor any other", ask)
	enqueue(t, q, nil, job("report.build"), job("email.welco"), job("email.welcomt"), job("report.build"), job("email.reminder"))
	enqueue(t, q, begin(t, q), job("audit"))
	wantMessage(t, `Fatal: no job email.welcome was enqueued; there were:
  1 of email.welcomt
  1 of email.welco
  1 of email.reminder
  1 of audit
  2 of report.build`, ask)
	for i := range 10 {
		enqueue(t, q, nil, job(fmt.Sprintf("very.different.%02d", i)))
	}
	if got, want := messages(t, ask), "very.different.04\n  and 5 more"; !strings.HasSuffix(got, want) {
		t.Errorf("message with 15 kinds:\n%s\nwant %q at its end", got, want)
	}
}

func TestWantJobTimes(t *testing.T) {
	q := newLetters(t, letter{UserID: 1}, letter{UserID: 2}, letter{UserID: 1})
	times := func(user int64, n int) func(t testing.TB) {
		return func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: user}, queuetest.Times(n)) }
	}
	wantMessage(t, "", times(1, 2))
	wantMessage(t, "", times(2, 1))
	wantMessage(t, "", times(3, 0))
	wantMessage(t, `Fatal: 2 jobs email.welcome with {"UserID":1} were enqueued, want 1:
  job 3 (pending)
  job 1 (pending)`, times(1, 1))
	wantMessage(t, `Fatal: 1 job email.welcome with {"UserID":2} was enqueued, want 0:
  job 2 (pending)`, times(2, 0))
	wantMessage(t, `Fatal: 1 job email.welcome with {"UserID":2} was enqueued, want 3:
  job 2 (pending)
nearest of 2 more:
  job 3 (pending): UserID: got 1, want 2
  job 1 (pending): UserID: got 1, want 2`, times(2, 3))
	wantMessage(t, `Fatal: no job email.welcome with {"UserID":3} was enqueued, want 2; nearest of 3:
  job 3 (pending): UserID: got 1, want 3
  job 2 (pending): UserID: got 2, want 3
  job 1 (pending): UserID: got 1, want 3`, times(3, 2))
}

func TestWantJobExcept(t *testing.T) {
	q := newLetters(t, letter{UserID: 42, Plan: "random", Tags: []string{"x", "y"}})
	queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Except("Plan", "Tags"))
	queuetest.WantJob(t, q, letters, letter{UserID: 42, Tags: []string{"z"}}, queuetest.Except("Plan", "Tags"))
	wantMessage(t, `Fatal: no job email.welcome with {"UserID":41,"Tags":["x","z"]} except Pla, Tags[1] was enqueued; nearest of 1:
  job 1 (pending): Plan: got "random", want none; UserID: got 42, want 41`, func(t testing.TB) {
		queuetest.WantJob(t, q, letters, letter{UserID: 41, Tags: []string{"x", "z"}}, queuetest.Except("Pla", "Tags[1]"))
	})
}

func TestWantNoJob(t *testing.T) {
	q := newLetters(t)
	enqueue(t, q, nil, job("other"))
	queuetest.WantNoJob(t, q, letters)
	tx := begin(t, q)
	enqueue(t, q, tx, letters.New(letter{UserID: 1}))
	queuetest.WantNoJob(t, q, letters)
	if err := tx.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	wentOn := false
	wantMessage(t, "Error: 1 job email.welcome was enqueued, want none:\n  job 2 (pending): {\"UserID\":1}", func(t testing.TB) {
		queuetest.WantNoJob(t, q, letters)
		wentOn = true
	})
	if !wentOn {
		t.Errorf("WantNoJob ended the test, want it to go on")
	}
	for range 11 {
		enqueue(t, q, nil, letters.New(letter{UserID: 2}))
	}
	got := messages(t, func(t testing.TB) { queuetest.WantNoJob(t, q, letters) })
	if !strings.HasPrefix(got, "Error: 12 jobs email.welcome were enqueued, want none:\n  job 13 (pending): {\"UserID\":2}\n") ||
		!strings.HasSuffix(got, "\n  job 4 (pending): {\"UserID\":2}\n  and 2 more") {
		t.Errorf("message for 12 jobs: got %s", got)
	}
}

// listing is another queue: it can be looked at, page by page, and no more.
type listing struct {
	driver.Inspector
	queue.Enqueuer
}

func TestWantJobReadsEveryPage(t *testing.T) {
	q := newLetters(t, letter{UserID: 42})
	many := make([]*queue.Job, 2500)
	for i := range many {
		many[i] = letters.New(letter{UserID: int64(-i)})
	}
	enqueue(t, q, nil, append(slices.Clone(many[:1000]), job("other"))...)
	enqueue(t, q, nil, many[1000:]...)
	other := listing{q, q}
	if got := queuetest.WantJob(t, other, letters, letter{UserID: 42}, queuetest.Times(1)); got.ID != 1 {
		t.Errorf("got job %d, want 1", got.ID)
	}
	if got, want := messages(t, func(t testing.TB) { queuetest.WantJob(t, other, letters, letter{UserID: 43}) }),
		"; nearest of 2501:\n  job 2502 (pending): "; !strings.Contains(got, want) {
		t.Errorf("message with 2501 jobs: got %s, want %q in it", got, want)
	}
	wantMessage(t, "Fatal: no job nothing was enqueued; there were:\n  1 of other\n  2501 of email.welcome",
		func(t testing.TB) { queuetest.WantJob(t, other, queue.NewKind[int]("nothing"), 1) })
}

func TestWantJobMisused(t *testing.T) {
	q := newLetters(t, letter{UserID: 42})
	unmarshallable := queue.NewKind[func()]("email.welcome")
	unnamed := queue.NewKind[letter]("")
	plain := queue.EnqueuerFunc(q.Enqueue)
	tests := []struct {
		says   string
		assert func(t testing.TB)
	}{
		{`queuetest: queue: invalid Payload: of kind "email.welcome": json: unsupported type: func()`,
			func(t testing.TB) { queuetest.WantJob(t, q, unmarshallable, func() {}) }},
		{"queuetest: queue: invalid Kind: empty", func(t testing.TB) { queuetest.WantJob(t, q, unnamed, letter{}) }},
		{"queuetest: queue: invalid Kind: empty", func(t testing.TB) { queuetest.WantNoJob(t, q, unnamed) }},
		{"queuetest: queue.EnqueuerFunc is no driver.Inspector and wraps none",
			func(t testing.TB) { queuetest.WantJob(t, plain, letters, letter{}) }},
		{"queuetest: <nil> is no driver.Inspector and wraps none", func(t testing.TB) { queuetest.WantNoJob(t, nil, letters) }},
		{"queuetest: Through: only the queue in memory remembers handles, not queuetest_test.listing",
			func(t testing.TB) { queuetest.WantJob(t, listing{q, q}, letters, letter{}, queuetest.Through(nil)) }},
		{"queuetest: Through: only the queue in memory remembers handles, not queuetest_test.listing",
			func(t testing.TB) { queuetest.WantNoJob(t, listing{q, q}, letters, queuetest.Through(nil)) }},
		{"queuetest: Times: -1: at least 0", func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{}, queuetest.Times(-1)) }},
		{"queuetest: Times: it is for WantJob, which has arguments",
			func(t testing.TB) { queuetest.WantNoJob(t, q, letters, queuetest.Times(1)) }},
		{"queuetest: Except: it is for WantJob, which has arguments",
			func(t testing.TB) { queuetest.WantNoJob(t, q, letters, queuetest.Except("UserID")) }},
	}
	for _, tt := range tests {
		wantMessage(t, "Fatal: "+tt.says, tt.assert)
	}
}
