package web

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// queuesPage is what the list of queues shows.
type queuesPage struct{ Queues []queueRow }

func queues(q *request) error {
	all := q.readAll()
	v := q.view("Queues", queuesPage{all.rows()})
	v.showAges(all.errs()...)
	return q.render("queues", v)
}

// queueView is what the page of a queue shows.
type queueView struct {
	queueRow
	Rule     queue.Rule
	Rate     rateForm
	PerGroup rateForm
	Groups   []groupRow
	Running  []jobRow
	IsCut    bool // Running are those of the newest running jobs
	CanPause bool
	IsKnown  bool // Rule and Groups were read
}

// rateForm is a rate as a form has it.
type rateForm struct {
	Jobs  int
	Per   string
	Burst int
}

// groupRow is a group that has a rule.
type groupRow struct {
	Name     string
	IsPaused bool
	Limits   string
}

// The page of a queue lists at most shownRunning running jobs. They are of the newestRunning ones
// of all queues: no index leads to those of a queue, so all pages share one list.
const (
	newestRunning = 1000
	shownRunning  = 20
)

// maxGroups is how many groups with rules the page of a queue lists.
const maxGroups = 200

func queuePage(q *request) error {
	name, err := nameIn(q.PathValue("queue"))
	if err != nil {
		return err
	}
	if driver.CheckQueue(name) != nil {
		return errNotFound
	}
	running := q.h.samples.lists.of(queue.Filter{Status: queue.StatusRunning, Limit: newestRunning})
	running.begin()
	all := q.readAll()
	page := queueView{queueRow: queueRow{Name: name, Age: -1}, Rule: queue.Rule{Queue: name}, CanPause: q.h.source.ruler != nil && q.h.source.pauser != nil}
	page.IsKnown = !all.rules.At.IsZero()
	for _, row := range all.rows() {
		if row.Name == name {
			page.queueRow = row
		}
	}
	for _, rule := range all.rules.Value {
		switch {
		case rule.Queue != name:
		case rule.Group == "":
			page.Rule = rule
		case len(page.Groups) < maxGroups:
			page.Groups = append(page.Groups, groupRow{rule.Group, rule.Paused, strings.ReplaceAll(limitsText(rule), " per group", "")})
		}
	}
	page.Rate, page.PerGroup = formOf(page.Rule.Rate), formOf(page.Rule.GroupRate)
	live := running.get(q.Context())
	page.Running, page.IsCut = q.jobRows(runningIn(name, live.Value.Jobs)), live.Value.Next > 0
	v := q.view("Queue "+name, page)
	v.showAges(append(all.errs(), late("Running jobs", live))...)
	return q.render("queue", v)
}

// runningIn returns the first of the jobs that are of a queue.
func runningIn(name string, jobs []queue.Record) (found []queue.Record) {
	for i := range jobs {
		if jobs[i].Queue == name && len(found) < shownRunning {
			found = append(found, jobs[i])
		}
	}
	return found
}

func formOf(r queue.Rate) rateForm {
	if r.Jobs == 0 {
		return rateForm{Per: time.Second.String()}
	}
	per := r.Per
	if per == 0 {
		per = time.Second
	}
	return rateForm{r.Jobs, per.String(), r.Burst}
}

// setLimits sets the limits of a queue. What the form does not have, such as Share, stays.
func setLimits(q *request) error {
	name, err := nameIn(q.PathValue("queue"))
	if err != nil || q.h.source.ruler == nil {
		return errNotFound
	}
	if err := q.ParseForm(); err != nil {
		return err
	}
	rule := queue.Rule{Queue: name}
	err = q.h.call(q.Context(), callTimeout, func(ctx context.Context) error { // before the transaction: the pool may have one connection
		rules, err := q.h.source.ruler.Rules(ctx)
		if i := slices.IndexFunc(rules, func(r queue.Rule) bool { return r.Queue == name && r.Group == "" }); i >= 0 {
			rule = rules[i]
		}
		return err
	})
	if err != nil {
		return err
	}
	rule.Paused = false // only a pause changes it
	if rule, err = q.limitsIn(rule); err != nil {
		return err
	}
	return q.act("queues.limit", targetOf("queues", name), "queues/"+segment(name), func(ctx context.Context, db queue.DB) (int, error) {
		return 1, q.h.source.ruler.SetRules(ctx, db, rule)
	})
}

// limitsIn returns rule with the limits of the request's form.
func (q *request) limitsIn(rule queue.Rule) (queue.Rule, error) {
	var err error
	if rule.Running, err = numberIn[int](q.PostForm, "running"); err != nil {
		return rule, err
	}
	if rule.PerGroup, err = numberIn[int](q.PostForm, "per_group"); err != nil {
		return rule, err
	}
	if rule.Rate, err = q.rateIn("rate"); err != nil {
		return rule, err
	}
	rule.GroupRate, err = q.rateIn("group_rate")
	return rule, err
}

// rateIn returns the rate of three fields of the form.
func (q *request) rateIn(name string) (r queue.Rate, err error) {
	if r.Jobs, err = numberIn[int](q.PostForm, name); err != nil || r.Jobs == 0 {
		return queue.Rate{}, err
	}
	if text := strings.TrimSpace(q.PostForm.Get(name + "_per")); text != "" {
		if r.Per, err = time.ParseDuration(text); err != nil || r.Per <= 0 { // 0 would mean a second
			return r, &queue.InvalidError{Field: name + "_per", Problem: "not a time such as 1s, 10m or 24h"}
		}
	}
	r.Burst, err = numberIn[int](q.PostForm, name+"_burst")
	return r, err
}
