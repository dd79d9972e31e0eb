package queue

import "cmp"

// Rule limits which jobs of a queue are claimed, over all its workers. A queue with a rule is a
// limited queue, unless the rule has only an OnDead. Limits count the jobs that run, so a job keeps
// its place until it is settled or reclaimed. A rule with nothing but its Queue and Group is none:
// setting it removes the rule, but ends no pause.
type Rule struct {
	// Queue is the queue's name; "" means [DefaultQueue].
	Queue string `json:"queue"`
	// Group is the [Job.Group] that the rule is for. "" means that it is the rule of the queue. The
	// rule of a group replaces PerGroup, Share and GroupRate of the queue's rule for that group: 0
	// means the queue's value.
	Group string `json:"group,omitempty"`
	// Paused means that no job of the queue or the group is claimed. Jobs that run go on. SetRules
	// can begin a pause. Only Pause ends it.
	Paused bool `json:"paused,omitempty"`
	// Running is how many jobs of the queue may run at once. 0 means any number. It must be 0 in
	// the rule of a group.
	Running int `json:"running,omitempty"`
	// PerGroup is how many jobs of one group may run at once. 0 means any number. In the rule of a
	// group, below 0 means any number.
	PerGroup int `json:"per_group,omitempty"`
	// Share is how many jobs of a group are claimed before the next group has its turn. 0 means 1.
	// Groups take turns if the queue's rule has a PerGroup, a Share or a GroupRate, or if a group has
	// a rule. Otherwise jobs are claimed as in a queue without rules.
	Share int `json:"share,omitempty"`
	// Rate limits how many jobs of the queue start in a time. It must be zero in the rule of a group.
	Rate Rate `json:"rate,omitzero"`
	// GroupRate limits how many jobs of each group start in a time. Jobs without a group have no such
	// limit.
	GroupRate Rate `json:"group_rate,omitzero"`
	// OnDead says what happens to an ordered job of the queue that would be dead. It counts when
	// the run ends, and changes no job that is dead or held already. It must be empty in the rule of a
	// group.
	OnDead DeadPolicy `json:"on_dead,omitempty"`
}

// DeadPolicy says what happens to an ordered job that fails its last attempt, is discarded, or
// crashes in its last attempt.
type DeadPolicy string

// The values of OnDead.
const (
	// PassDead: the job is dead, and the next one of its group may run. This is the default.
	PassDead DeadPolicy = ""
	// HoldDead: the job is held, with its Key, its attempts and its LastError, and no other job of
	// its group runs until somebody edits it with RunNow, redrives it or cancels it. A job that was
	// asked to be cancelled is not held.
	HoldDead DeadPolicy = "hold"
)

// maxRule is the highest limit in a rule.
const maxRule = 1_000_000

// Check returns an [*InvalidError] for the first field that is out of range. Backends call it first
// in SetRules.
func (r Rule) Check() error {
	if r.Queue != "" {
		if err := checkName("Queue", r.Queue); err != nil {
			return err
		}
	}
	if err := checkGroup(r.Group); err != nil {
		return err
	}
	lowest := 0
	if r.Group != "" {
		lowest = -1
		if r.Running != 0 {
			return invalid("Running", "%d in the rule of a group: set PerGroup", r.Running)
		}
		if r.Rate != (Rate{}) {
			return invalid("Rate", "in the rule of a group: set GroupRate")
		}
		if r.OnDead != "" {
			return invalid("OnDead", "%q in the rule of a group: set it in the rule of the queue", r.OnDead)
		}
	}
	if r.OnDead != PassDead && r.OnDead != HoldDead {
		return invalid("OnDead", "%q: one of %q", r.OnDead, []DeadPolicy{PassDead, HoldDead})
	}
	for _, f := range []struct {
		name   string
		value  int
		lowest int
	}{{"Running", r.Running, 0}, {"PerGroup", r.PerGroup, lowest}, {"Share", r.Share, 0}} {
		if f.value < f.lowest || f.value > maxRule {
			return invalid(f.name, "%d: between %d and %d", f.value, f.lowest, maxRule)
		}
	}
	return cmp.Or(r.Rate.check("Rate", 0), r.GroupRate.check("GroupRate", lowest))
}

// IsZero reports whether the rule says nothing. To set it is to remove the rule.
func (r Rule) IsZero() bool { return r == Rule{Queue: r.Queue, Group: r.Group} }

// IsLimit reports whether claims have to keep the rule. OnDead concerns only the ends of jobs.
func (r Rule) IsLimit() bool {
	r.OnDead = PassDead
	return !r.IsZero()
}
