package memory

import "time"

// Rewind makes the next tick of each schedule due by that much sooner.
func (q *Queue) Rewind(by time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.schedules {
		if s.committed != nil && !s.committed.Next.IsZero() {
			next := *s.committed
			next.Next = next.Next.Add(-by)
			s.committed = &next
		}
	}
}
