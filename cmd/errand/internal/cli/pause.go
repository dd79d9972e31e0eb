package cli

import (
	"github.com/errandhq/errand/queue"
)

// PauseResult is something that was paused or resumed.
type PauseResult struct {
	Name    string `json:"name"`
	Group   string `json:"group,omitempty"` // of the queue Name; "" if it was the whole queue
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"` // false if it was so before
}

// PauseEntry is the audit entry of a pause, or of its end.
func PauseEntry(what, selection string, paused bool, c PauseResult) queue.AuditEntry {
	entry := queue.AuditEntry{Action: what + ".resume", Selection: selection}
	if paused {
		entry.Action = what + ".pause"
	}
	if c.Changed {
		entry.Count = 1
	}
	return entry
}

// WritePauses writes what has been paused or resumed. names are the columns of its name, and of
// its group if it has one.
func (a *App) WritePauses(names string, list []PauseResult) error {
	return Write(a, list, func() Table {
		t := Table{Columns: Columns(names + " PAUSED CHANGED")}
		for _, c := range list {
			cells := []string{c.Name}
			if c.Group != "" {
				cells = append(cells, c.Group)
			}
			t.Add(append(cells, YesNo(c.Paused), YesNo(c.Changed))...)
		}
		return t
	})
}
