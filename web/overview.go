package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// The thresholds of the verdict: how long a due job may wait.
const (
	lateAfter    = time.Minute
	tooLateAfter = 15 * time.Minute
)

// statuses are the columns of tables, in the order of a job's life.
var statuses = []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusHeld, queue.StatusDead, queue.StatusCancelled,
	queue.StatusCompleted, queue.StatusFailed}

// verdict is the first line of the overview: the answer to "is all well?".
type verdict struct {
	Level string // ok, warn, fail or unknown: a class of the style sheet
	Word  string // the level in a word
	Text  string
	More  []string // further findings
}

// overviewPage is what the overview shows.
type overviewPage struct {
	Verdict verdict
	Workers string // "" if nothing is known of them
	Chart   *chart // nil if the backend keeps no statistics
	Totals  []total
	Queues  []queueRow
	Dead    []jobRow // those that were enqueued last
}

// total is how many jobs of all queues have a status.
type total struct {
	Status queue.Status
	Jobs   string
}

// queueRow is a queue in a table.
type queueRow struct {
	Name     string
	Age      time.Duration // of the oldest due job; below 0: none is due
	Bar      int           // the length of its bar, from 0 to 100
	Level    string        // a class for the age
	Jobs     []statusCount // one for each of columns
	IsPaused bool
	Groups   int // with rules of their own
	Limits   string
}

// statusCount is how many jobs of a queue have a status.
type statusCount struct {
	Status queue.Status
	Jobs   string // "" for none
}

func overview(q *request) error {
	all := q.readAll()
	crew, hour := q.h.samples.crew.get(q.Context()), q.h.samples.hour.get(q.Context())
	dead := q.h.samples.lists.of(queue.Filter{Status: queue.StatusDead, Limit: 5}).get(q.Context())
	late := q.h.samples.lists.of(queue.Filter{Status: queue.StatusRunning, Expired: true, Limit: 100, Bare: true}).get(q.Context())
	page := overviewPage{
		Verdict: all.verdict(late, crew),
		Totals:  totals(all.counts.Value),
		Queues:  all.rows(),
		Dead:    q.jobRows(dead.Value.Jobs),
	}
	page.Chart = newChart(hour, q.now)
	page.Workers, _ = workersNote(crew)
	v := q.view("Overview", page)
	v.Late = lateText(q.now, append(all.errs(), lateness{"Dead jobs", dead.At, dead.Err}, lateness{"Expired leases", late.At, late.Err},
		lateness{"Workers", crew.At, crew.Err}, lateness{"Statistics", hour.At, hour.Err}))
	return q.render("overview", v)
}

// readings is what is known of all queues.
type readings struct {
	counts   reading[[]queue.Count]
	backlogs reading[[]queue.Backlog]
	rules    reading[[]queue.Rule]
	paused   reading[[]string]
}

// readAll returns what is known of all queues.
func (q *request) readAll() readings {
	s, ctx := q.h.samples, q.Context()
	return readings{s.counts.get(ctx), s.backlogs.get(ctx), s.rules.get(ctx), s.paused.get(ctx)}
}

// errs returns the age of each reading that is late.
func (r readings) errs() []lateness {
	return []lateness{
		{"Counts", r.counts.At, r.counts.Err},
		{"Waiting times", r.backlogs.At, r.backlogs.Err},
		{"Limits and pauses", r.rules.At, r.rules.Err},
		{"Paused kinds", r.paused.At, r.paused.Err},
	}
}

// lateness is a reading that may be late.
type lateness struct {
	what string
	at   time.Time
	err  error
}

// lateText returns the sentence about readings that could not be repeated, or "".
func lateText(now time.Time, all []lateness) string {
	var parts []string
	for _, l := range all {
		if l.err == nil {
			continue
		}
		if len(parts) == 0 {
			text, _ := explainError(l.err)
			parts = append(parts, strings.TrimSuffix(text, "."))
		}
		switch {
		case l.at.IsZero():
			parts = append(parts, l.what+": not known yet")
		default:
			parts = append(parts, fmt.Sprintf("%s: as of %s ago", l.what, duration(now.Sub(l.at).Truncate(time.Second))))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ". ") + "."
}

// verdict says whether all is well, and what is worst.
func (r readings) verdict(expired reading[listing], workers reading[crew]) verdict {
	if r.counts.At.IsZero() && r.counts.Err != nil {
		text, _ := explainError(r.counts.Err)
		return verdict{Level: "fail", Word: "Unknown", Text: text}
	}
	v := verdict{Level: "ok", Word: "All well"}
	note := func(level, word, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if severity(level) > severity(v.Level) {
			v.Level, v.Word = level, word
			v.More = slices.Insert(v.More, 0, text)
		} else {
			v.More = append(v.More, text)
		}
	}
	isPaused := r.pausedQueues()
	for _, b := range slices.SortedFunc(slices.Values(r.backlogs.Value), func(a, b queue.Backlog) int { return cmp.Compare(b.Age, a.Age) }) {
		switch {
		case isPaused[b.Queue]:
			note("warn", "Paused", "Queue %s is paused. Its oldest due job has waited for %s.", b.Queue, duration(b.Age))
		case b.Age >= tooLateAfter:
			note("fail", "Stuck", "The oldest due job of queue %s has waited for %s.", b.Queue, duration(b.Age))
		case b.Age >= lateAfter:
			note("warn", "Behind", "The oldest due job of queue %s has waited for %s.", b.Queue, duration(b.Age))
		}
	}
	if n := len(expired.Value.Jobs); n > 0 {
		note("warn", "Workers lost", "%s whose lease has expired: no worker has reclaimed them.", atLeast(n, expired.Value.Next, "running job"))
	}
	if len(r.backlogs.Value) > 0 && !isAnyAlive(workers) {
		note("warn", "No workers", "Jobs are due, and no worker has reported itself. Workers made of SQL statements do not.")
	}
	if _, vanished := workersNote(workers); vanished > 0 {
		note("warn", "Workers lost", "%s without a sign of life for %s.", plural(int64(vanished), "worker"), duration(queue.VanishedAfter))
	}
	for _, kind := range r.paused.Value {
		note("warn", "Paused", "Kind %s is paused.", kind)
	}
	if n := countOf(r.counts.Value, queue.StatusHeld); n > 0 {
		note("warn", "Held", "%s: their groups wait for a person.", plural(n, "held job"))
	}
	if len(v.More) > 0 {
		v.Text, v.More = v.More[0], v.More[1:]
		return v
	}
	v.Text = "No job is due and waiting."
	if oldest := slices.MaxFunc(append(r.backlogs.Value, queue.Backlog{}), func(a, b queue.Backlog) int { return cmp.Compare(a.Age, b.Age) }); oldest.Queue != "" {
		v.Text = fmt.Sprintf("No job has been due for longer than %s.", duration(max(oldest.Age, time.Second).Truncate(time.Second)))
	}
	return v
}

func severity(level string) int { return slices.Index([]string{"ok", "warn", "fail"}, level) }

// upper returns text with its first letter in upper case.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// atLeast returns "3 running jobs", or "100+ running jobs" if there are further pages.
func atLeast(n int, next int64, noun string) string {
	if next > 0 {
		return fmt.Sprintf("%d+ %ss", n, noun)
	}
	return plural(int64(n), noun)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// countOf returns how many jobs of all queues have the status.
func countOf(counts []queue.Count, status queue.Status) (n int64) {
	for _, c := range counts {
		if c.Status == status {
			n += c.Jobs
		}
	}
	return n
}

// totals adds the counts of all queues. Statuses that errand does not set are left out if they are
// zero.
func totals(counts []queue.Count) (all []total) {
	for _, status := range statuses {
		n, isExact := int64(0), true
		for _, c := range counts {
			if c.Status == status {
				n += c.Jobs
				isExact = isExact && c.Exact
			}
		}
		if n > 0 || status != queue.StatusFailed {
			all = append(all, total{status, countText(n, isExact)})
		}
	}
	return all
}

// countText returns a count; an estimate begins with "~".
func countText(n int64, isExact bool) string {
	if !isExact {
		return "~" + number(n)
	}
	return number(n)
}

// pausedQueues returns the queues that are paused.
func (r readings) pausedQueues() map[string]bool {
	paused := make(map[string]bool)
	for _, rule := range r.rules.Value {
		if rule.Group == "" && rule.Paused {
			paused[rule.Queue] = true
		}
	}
	return paused
}

// rows returns the queues that have jobs or rules: those with the oldest due jobs first, then by
// name.
func (r readings) rows() []queueRow {
	byName := make(map[string]*queueRow)
	row := func(name string) *queueRow {
		if byName[name] == nil {
			byName[name] = &queueRow{Name: name, Age: -1, Jobs: make([]statusCount, len(statuses))}
			for i, status := range statuses {
				byName[name].Jobs[i].Status = status
			}
		}
		return byName[name]
	}
	for _, c := range r.counts.Value {
		if i := slices.Index(statuses, c.Status); i >= 0 {
			row(c.Queue).Jobs[i].Jobs = countText(c.Jobs, c.Exact)
		}
	}
	for _, b := range r.backlogs.Value {
		setAge(row(b.Queue), b.Age)
	}
	for _, rule := range r.rules.Value {
		if rule.Group != "" {
			row(rule.Queue).Groups++
			continue
		}
		row(rule.Queue).IsPaused, row(rule.Queue).Limits = rule.Paused, limitsText(rule)
	}
	all := make([]queueRow, 0, len(byName))
	for _, q := range byName {
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b queueRow) int { return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.Name, b.Name)) })
	dropEmpty(all, func(row *queueRow) *[]statusCount { return &row.Jobs })
	return all
}

// dropEmpty drops the columns of rare statuses that no row has.
func dropEmpty[T any](rows []T, countsOf func(*T) *[]statusCount) {
	seen := map[queue.Status]bool{queue.StatusPending: true, queue.StatusRunning: true, queue.StatusDead: true, queue.StatusCompleted: true}
	for i := range rows {
		for _, c := range *countsOf(&rows[i]) {
			seen[c.Status] = seen[c.Status] || c.Jobs != ""
		}
	}
	for i := range rows {
		counts := countsOf(&rows[i])
		*counts = slices.DeleteFunc(*counts, func(c statusCount) bool { return !seen[c.Status] })
	}
}

// setAge sets the age of the oldest due job. The bar grows with the logarithm: a second is short,
// and a day is all of it.
func setAge(row *queueRow, age time.Duration) {
	age = max(age, 0)
	row.Age = age
	row.Bar = min(100, int(100*math.Log1p(age.Seconds())/math.Log1p((24*time.Hour).Seconds())))
	switch {
	case age >= tooLateAfter:
		row.Level = "fail"
	case age >= lateAfter:
		row.Level = "warn"
	default:
		row.Level = "ok"
	}
}

// limitsText returns the limits of a rule in words, or "".
func limitsText(r queue.Rule) string {
	var parts []string
	if r.Running > 0 {
		parts = append(parts, fmt.Sprintf("%s at once", number(r.Running)))
	}
	if r.PerGroup > 0 {
		parts = append(parts, fmt.Sprintf("%s at once per group", number(r.PerGroup)))
	}
	if r.Share > 1 {
		parts = append(parts, fmt.Sprintf("%s a turn", number(r.Share)))
	}
	if r.Rate.Jobs > 0 {
		parts = append(parts, rateText(r.Rate))
	}
	if r.GroupRate.Jobs > 0 {
		parts = append(parts, rateText(r.GroupRate)+" per group")
	}
	if r.OnDead == queue.HoldDead {
		parts = append(parts, "holds dead jobs")
	}
	return strings.Join(parts, ", ")
}

func rateText(r queue.Rate) string {
	per := cmp.Or(r.Per, time.Second)
	text := fmt.Sprintf("%s in %s", number(r.Jobs), duration(per))
	if r.Burst > 0 {
		text += fmt.Sprintf(" (burst %s)", number(r.Burst))
	}
	return text
}
