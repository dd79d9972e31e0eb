package redistest

import (
	"slices"
	"strings"
	"testing"
)

// TestParseNodes reads what a replica says whose cluster has lost a master while a slot moves.
func TestParseNodes(t *testing.T) {
	nodes := parseNodes(`a1 127.0.0.1:1@11 master - 0 1 1 connected 0-99 200 [200->-b2] [50-<-b2]
b2 127.0.0.1:2@12,host master - 0 1 2 connected 100-199
c3 127.0.0.1:3@13 master,fail - 0 1 3 disconnected
d4 127.0.0.1:4@14 myself,slave b2 0 1 2 connected
e5 127.0.0.1:5@15 slave,fail a1 0 1 1 disconnected
short line
`)
	if len(nodes) != 5 {
		t.Fatalf("got %d nodes, want 5", len(nodes))
	}
	var masters []string
	for _, m := range Masters(nodes) {
		masters = append(masters, m.Addr)
	}
	if want := []string{"127.0.0.1:1", "127.0.0.1:2"}; !slices.Equal(masters, want) {
		t.Errorf("masters: got %v, want %v", masters, want)
	}
	if r, ok := ReplicaOf(nodes, nodes[1]); !ok || r.ID != "d4" {
		t.Errorf("replica of b2: got %v, %v, want d4", r, ok)
	}
	if r, ok := ReplicaOf(nodes, nodes[0]); ok {
		t.Errorf("replica of a1: got %v, want none, because its replica does not answer", r)
	}
	for slot, want := range map[int]bool{0: true, 99: true, 100: false, 200: true, 201: false} {
		if got := nodes[0].hasSlot(slot); got != want {
			t.Errorf("a1 has slot %d: got %v, want %v", slot, got, want)
		}
	}
	if nodes[0].sharesSlots(nodes[1]) || !nodes[0].sharesSlots(Node{spans: []span{{90, 150}}}) {
		t.Error("shares slots: wrong")
	}
}

// TestIsWhole: a cluster is whole if all slots are served, and all replicas are there.
func TestIsWhole(t *testing.T) {
	const whole = `a1 127.0.0.1:1@11 myself,master - 0 1 1 connected 0-99 200
b2 127.0.0.1:2@12 master - 0 1 2 connected 100-199 201-16383
d4 127.0.0.1:4@14 slave b2 0 1 2 connected
c3 127.0.0.1:3@13 master,fail - 0 1 3 disconnected
`
	if !isWhole(parseNodes(whole), 2, 1) {
		t.Error("got false")
	}
	for from, to := range map[string]string{" 200\n": "\n", "slave": "slave,fail", "a1 127.0.0.1:1@11 myself,master": "a1 127.0.0.1:1@11 master,fail"} {
		if isWhole(parseNodes(strings.Replace(whole, from, to, 1)), 2, 1) {
			t.Errorf("with %q instead of %q: got true", to, from)
		}
	}
	moved := strings.NewReplacer("0-99 200", "0-99", "201-", "200-").Replace(whole)
	if layout(parseNodes(whole)) == layout(parseNodes(moved)) {
		t.Error("the layout is the same after a slot has moved")
	}
}
