package redistest

import (
	"strconv"
	"strings"
)

// Node is a node of a cluster, as the others see it.
type Node struct {
	ID   string
	Addr string // host:port
	// Master is the ID of the master whose replica it is; "" for a master.
	Master string
	// Failed says that it does not answer.
	Failed bool

	spans []span // the slots of a master
}

// span is a range of slots, both ends included.
type span struct{ first, last int }

// isMaster reports whether it answers and has slots of its own.
func (n Node) isMaster() bool { return n.Master == "" && !n.Failed && len(n.spans) > 0 }

func (n Node) hasSlot(slot int) bool { return n.sharesSlots(Node{spans: []span{{slot, slot}}}) }

// sharesSlots reports whether some slot is both nodes'.
func (n Node) sharesSlots(other Node) bool {
	for _, a := range n.spans {
		for _, b := range other.spans {
			if a.first <= b.last && b.first <= a.last {
				return true
			}
		}
	}
	return false
}

// Masters returns the masters that answer and have slots.
func Masters(nodes []Node) (masters []Node) {
	for _, n := range nodes {
		if n.isMaster() {
			masters = append(masters, n)
		}
	}
	return masters
}

// ReplicaOf returns a replica of a master that answers. ok is false if there is none.
func ReplicaOf(nodes []Node, master Node) (replica Node, ok bool) {
	for _, n := range nodes {
		if n.Master == master.ID && !n.Failed {
			return n, true
		}
	}
	return replica, false
}

// parseNodes reads the text of CLUSTER NODES: in each line the ID, the address, flags, the master's
// ID, and from the ninth field on slots.
func parseNodes(text string) (nodes []Node) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		n := Node{ID: f[0], Failed: strings.Contains(f[2], "fail")}
		n.Addr, _, _ = strings.Cut(f[1], "@")
		if !strings.Contains(f[2], "master") {
			n.Master = f[3]
		}
		for _, text := range f[8:] {
			if s, ok := parseSpan(text); ok {
				n.spans = append(n.spans, s)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// parseSpan reads a slot, or two ends. ok is false for a slot that moves, "[slot->-id]".
func parseSpan(text string) (s span, ok bool) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	var err1, err2 error
	s.first, err1 = strconv.Atoi(first)
	s.last, err2 = strconv.Atoi(last)
	return s, err1 == nil && err2 == nil
}
