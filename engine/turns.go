package engine

import (
	"cmp"
	"slices"
)

// maxWeight is the highest weight of a queue. It keeps the sums of credits far from overflow.
const maxWeight = 10_000

// turns chooses the order of the queues for each claim of a worker. Queues without a weight keep
// their places. The others share the places that are left: in each claim all get as much credit as
// they have weight, and the queue with the most credit comes first and pays the sum. So of that
// many claims each queue is first in as many as it has weight, and its claims are spread out.
type turns struct {
	queues   []string
	places   []int // of the weighted queues, in queues
	weighted []weightedQueue
}

type weightedQueue struct {
	name           string
	weight, credit int
	place          int // in queues
}

func newTurns(queues []string, weights map[string]int) turns {
	t := turns{queues: queues}
	for i, name := range queues {
		if weight := weights[name]; weight > 0 {
			t.places = append(t.places, i)
			t.weighted = append(t.weighted, weightedQueue{name: name, weight: weight, place: i})
		}
	}
	return t
}

// next returns the queues in the order for the next claim.
func (t *turns) next() []string {
	if len(t.weighted) == 0 {
		return t.queues
	}
	sum := 0
	for i := range t.weighted {
		t.weighted[i].credit += t.weighted[i].weight
		sum += t.weighted[i].weight
	}
	slices.SortFunc(t.weighted, func(a, b weightedQueue) int {
		return cmp.Or(cmp.Compare(b.credit, a.credit), cmp.Compare(a.place, b.place))
	})
	t.weighted[0].credit -= sum
	order := slices.Clone(t.queues)
	for i, place := range t.places {
		order[place] = t.weighted[i].name
	}
	return order
}

// checkWeights returns an error for weights that do not fit the queues.
func checkWeights(queues []string, weights map[string]int) error {
	for name, weight := range weights {
		if weight < 1 || weight > maxWeight {
			return invalid("Worker.Weights", "%d of queue %q: between 1 and %d", weight, name, maxWeight)
		}
		if err := checkOneOf(queues, "Worker.Weights", name); err != nil {
			return err
		}
	}
	return nil
}

// checkOneOf returns an error for a queue that a field names and that is not in queues, or twice.
func checkOneOf(queues []string, field, name string) error {
	switch first := slices.Index(queues, name); {
	case first < 0:
		return invalid(field, "%q: not one of Worker.Queues", name)
	case slices.Contains(queues[first+1:], name):
		return invalid(field, "%q: twice in Worker.Queues", name)
	}
	return nil
}
