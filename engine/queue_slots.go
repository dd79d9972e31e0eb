package engine

import "slices"

// queueSlots are the slots of one queue that has a number in Worker.Slots.
type queueSlots struct {
	most int
	used int // jobs of the queue that wait for a slot or are in one
	busy int // those in one
}

// room returns how many more jobs of the queue there is a slot for. It is 0 for nil.
func (s *queueSlots) room() int {
	if s == nil {
		return 0
	}
	return s.most - s.used
}

// slotsByQueue has the slots of the queues that have a number. nil means that no queue has one.
type slotsByQueue map[string]*queueSlots

func newSlotsByQueue(slots map[string]int) slotsByQueue {
	if len(slots) == 0 {
		return nil
	}
	all := make(slotsByQueue, len(slots))
	for name, most := range slots {
		all[name] = &queueSlots{most: most}
	}
	return all
}

// areFull reports whether no job of any of the queues may start, however many slots are free.
func (all slotsByQueue) areFull(queues []string) bool {
	return all != nil && !slices.ContainsFunc(queues, func(name string) bool {
		s := all[name]
		return s == nil || s.room() > 0
	})
}

// ask is a claim of a round: at most limit jobs of the queues.
type ask struct {
	queues []string
	limit  int
	own    *queueSlots // of the only queue, if that bounds the limit
}

// together returns one claim of all queues that have room, for at most n jobs. Its limit is the
// room of the fullest queue, so that no queue gets more jobs than it has room for.
func (all slotsByQueue) together(queues []string, n int) ask {
	a := ask{limit: n}
	for _, name := range queues {
		if s := all[name]; s == nil {
			a.queues = append(a.queues, name)
		} else if s.room() > 0 {
			a.queues, a.limit = append(a.queues, name), min(a.limit, s.room())
		}
	}
	return a
}

// apart returns the claims of a round for at most n jobs, in the order of the queues. A queue that
// has room for fewer jobs has a claim of its own. Queues between such queues share a claim.
func (all slotsByQueue) apart(queues []string, n int) (round []ask) {
	isOpen := false // the last claim takes further queues
	for _, name := range queues {
		s := all[name]
		switch {
		case s != nil && s.room() <= 0:
		case s != nil && s.room() < n:
			round, isOpen = append(round, ask{queues: []string{name}, limit: s.room(), own: s}), false
		case isOpen:
			last := &round[len(round)-1]
			last.queues = append(last.queues, name)
		default:
			round, isOpen = append(round, ask{queues: []string{name}, limit: n}), true
		}
	}
	return round
}

// checkSlots returns an error for numbers of slots that do not fit the queues.
func checkSlots(queues []string, slots map[string]int, concurrency int) error {
	for name, n := range slots {
		if n < 1 || n > concurrency {
			return invalid("Worker.Slots", "%d of queue %q: between 1 and Concurrency, which is %d", n, name, concurrency)
		}
		if err := checkOneOf(queues, "Worker.Slots", name); err != nil {
			return err
		}
	}
	return nil
}
