package main

import (
	"github.com/errandhq/errand/queue"
)

// changed is something that was paused or resumed.
type changed struct {
	Name    string `json:"name"`
	Group   string `json:"group,omitempty"` // of the queue Name; "" if it was the whole queue
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"` // false if it was so before
}

// pauseEntry is the audit entry of a pause, or of its end.
func pauseEntry(what, selection string, paused bool, c changed) queue.AuditEntry {
	entry := queue.AuditEntry{Action: what + ".resume", Selection: selection}
	if paused {
		entry.Action = what + ".pause"
	}
	if c.Changed {
		entry.Count = 1
	}
	return entry
}

// writeChanged writes what has been paused or resumed. names are the columns of its name, and of
// its group if it has one.
func (a *app) writeChanged(names string, list []changed) error {
	return write(a, list, func() table {
		t := table{columns: columns(names + " PAUSED CHANGED")}
		for _, c := range list {
			cells := []string{c.Name}
			if c.Group != "" {
				cells = append(cells, c.Group)
			}
			t.add(append(cells, yes(c.Paused), yes(c.Changed))...)
		}
		return t
	})
}
