package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// statuses are the columns of tables, in the order of a job's life.
var statuses = []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusHeld, queue.StatusDead, queue.StatusCancelled,
	queue.StatusCompleted, queue.StatusFailed}

// overviewPage is what the overview shows.
type overviewPage struct {
	Verdict verdict
	Workers string // "" if nothing is known of them
	Chart   *chart // nil if the backend keeps no statistics
	Totals  []total
	Queues  []queueRow
	Dead    []jobRow // those that were enqueued last
	HasDead bool     // there may be dead jobs beside Dead
}

// total is how many jobs of all queues have a status.
type total struct {
	Status queue.Status
	Jobs   string
}

// queueRow is a queue in a table.
type queueRow struct {
	Name     string
	Age      time.Duration // of the oldest due job; below 0: see NoAge
	NoAge    string        // why there is no age: none is due, or that is not known
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
	s, ctx := q.h.samples, q.Context()
	begin(s.dead, s.expired, s.held, s.workers, s.hour)
	all := q.readAll()
	f := facts{
		readings: all, workers: s.workers.get(ctx), expired: s.expired.get(ctx), held: s.held.get(ctx),
		isSQL: q.h.source.db != nil,
	}
	hour, dead := s.hour.get(ctx), s.dead.get(ctx)
	page := overviewPage{
		Verdict: f.verdict(time.Now()),
		Totals:  totals(all.counts),
		Queues:  all.rows(),
		Dead:    q.jobRows(dead.Value.Jobs),
		HasDead: dead.Value.Next > 0,
	}
	page.Chart = newChart(hour, q.now)
	page.Workers, _ = workersNote(f.workers)
	v := q.view("Overview", page)
	v.showAges(append(f.errs(), late("Dead jobs", dead), late("Statistics", hour))...)
	return q.render("overview", v)
}

// readings is what is known of all queues.
type readings struct {
	counts   reading[[]queue.StatusCount]
	backlogs reading[[]driver.Backlog]
	rules    reading[[]queue.Rule]
	paused   reading[[]string]
}

// readAll returns what is known of all queues.
func (q *request) readAll() readings {
	s, ctx := q.h.samples, q.Context()
	begin(s.rules, s.paused, s.backlogs, s.counts)
	return readings{s.counts.get(ctx), s.backlogs.get(ctx), s.rules.get(ctx), s.paused.get(ctx)}
}

// errs returns the age of each reading that is late.
func (r readings) errs() []lateness {
	return []lateness{
		late("Counts", r.counts),
		late("Waiting times", r.backlogs),
		late("Limits and pauses", r.rules),
		late("Paused kinds", r.paused),
	}
}

// lateness is how old a reading may be.
type lateness struct {
	what      string
	at        time.Time
	err       error
	isAwaited bool
}

func late[T any](what string, r reading[T]) lateness {
	return lateness{what, r.At, r.Err, r.IsAwaited}
}

// showAges notes how old the readings of the page are, and says which could not be repeated or are
// being repeated. A page that awaits some refreshes itself soon.
func (v *view) showAges(all ...lateness) {
	v.Late = lateText(v.Now, all)
	v.Awaits = awaitsText(v.Now, all)
	v.ages = all
	if v.Awaits != "" {
		v.Every = awaitEvery
	}
}

// Age says how old those readings are that are older than freshFor, or "". Templates show it beside
// the values.
func (v *view) Age(names ...string) string {
	var parts []string
	for _, l := range v.ages {
		if age := v.Now.Sub(l.at); slices.Contains(names, l.what) && !l.at.IsZero() && age > freshFor {
			parts = append(parts, fmt.Sprintf("%s as of %s ago", strings.ToLower(l.what), duration(age.Truncate(time.Second))))
		}
	}
	return upper(strings.Join(parts, ", "))
}

// awaitsText returns the sentences about readings that are under way, or "".
func awaitsText(now time.Time, all []lateness) string {
	var parts []string
	for _, l := range all {
		switch {
		case !l.isAwaited || l.err != nil: // see lateText
		case l.at.IsZero():
			parts = append(parts, strings.ToLower(l.what)+" (not known yet)")
		default:
			parts = append(parts, fmt.Sprintf("%s (as of %s ago)", strings.ToLower(l.what), duration(now.Sub(l.at).Truncate(time.Second))))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Being read: " + strings.Join(parts, ", ") + "."
}

// lateText returns the sentence about readings that could not be repeated, or "".
func lateText(now time.Time, all []lateness) string {
	var why string
	var ages []string
	late := make(map[string][]string) // what is late, by its age
	for _, l := range all {
		if l.err == nil {
			continue
		}
		if why == "" {
			why, _ = explainError(l.err)
		}
		if l.at.IsZero() {
			why += fmt.Sprintf(" %s: not known yet.", l.what)
			continue
		}
		age := fmt.Sprintf("as of %s ago", duration(now.Sub(l.at).Truncate(time.Second)))
		if late[age] == nil {
			ages = append(ages, age)
		}
		late[age] = append(late[age], l.what)
	}
	for _, age := range ages {
		why += fmt.Sprintf(" %s: %s.", upper(strings.ToLower(strings.Join(late[age], ", "))), age)
	}
	return why
}

// upper returns text with its first letter in upper case.
func upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

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

// unknown stands for a figure that could not be read yet.
const unknown = "–"

// totals adds the counts of all queues. Statuses that errand does not set are left out if they are
// zero.
func totals(counts reading[[]queue.StatusCount]) (all []total) {
	for _, status := range statuses {
		n, isExact := int64(0), true
		for _, c := range counts.Value {
			if c.Status == status {
				n += c.Jobs
				isExact = isExact && c.Exact
			}
		}
		switch {
		case counts.At.IsZero() && status != queue.StatusFailed:
			all = append(all, total{status, unknown})
		case n > 0 || status != queue.StatusFailed:
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
	noAge := "none due"
	if r.backlogs.At.IsZero() {
		noAge = unknown
	}
	row := func(name string) *queueRow {
		if byName[name] == nil {
			byName[name] = &queueRow{Name: name, Age: -1, NoAge: noAge, Jobs: make([]statusCount, len(statuses))}
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
	tidyCounts(all, !r.counts.At.IsZero(), func(row *queueRow) *[]statusCount { return &row.Jobs })
	return all
}

// tidyCounts drops the columns of rare statuses that no row has. If no counts are known, it says so
// in the others.
func tidyCounts[T any](rows []T, isKnown bool, countsOf func(*T) *[]statusCount) {
	seen := map[queue.Status]bool{queue.StatusPending: true, queue.StatusRunning: true, queue.StatusDead: true, queue.StatusCompleted: true}
	for i := range rows {
		for _, c := range *countsOf(&rows[i]) {
			seen[c.Status] = seen[c.Status] || c.Jobs != ""
		}
	}
	for i := range rows {
		counts := countsOf(&rows[i])
		*counts = slices.DeleteFunc(*counts, func(c statusCount) bool { return !seen[c.Status] })
		for j := 0; j < len(*counts) && !isKnown; j++ {
			(*counts)[j].Jobs = unknown
		}
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
