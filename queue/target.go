package queue

// Target is what a pause is about. It is one of a queue, a group, a kind and a schedule: one of
// Queue, Group, Kind and Schedule is set.
type Target struct {
	// Queue is a queue with all its groups. It has to be named, also [DefaultQueue].
	Queue string `json:"queue,omitempty"`
	// Group is a group of the queue InQueue.
	Group   string `json:"group,omitempty"`
	InQueue string `json:"in_queue,omitempty"`
	// Kind is a kind of jobs, in all queues.
	Kind string `json:"kind,omitempty"`
	// Schedule is the name of a schedule.
	Schedule string `json:"schedule,omitempty"`
}

// String returns the target as audit entries name it: "queue=emails", "queue=emails group=acme",
// "kind=email.welcome" or "schedule=weekly".
func (t Target) String() string {
	switch {
	case t.Group != "":
		return "queue=" + t.InQueue + " group=" + t.Group
	case t.Kind != "":
		return "kind=" + t.Kind
	case t.Schedule != "":
		return "schedule=" + t.Schedule
	}
	return "queue=" + t.Queue
}
