package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// TestIsolate parts the network of a cluster: a master is alone with a client, and stops to serve
// it, while the others replace the master. Healed, the cluster is whole again.
func TestIsolate(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a failover")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux: each node has a host of 127.0.0.0/8")
	}
	s, err := StartCluster(t.Context(), 3, 1, Options{Splits: true})
	if errors.Is(err, ErrNoServer) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED, and CI would fail: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	nodes, err := s.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	master := Masters(nodes)[0]
	const near = "127.1.1.1"
	nearClient, farClient := clientFrom(t, master.Addr, near), clientFrom(t, master.Addr, "127.0.0.1")
	key := keyOf(t, nearClient, master)
	set := func(c rueidis.Client) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return c.Do(ctx, c.B().Set().Key(key).Value("x").Build()).Error()
	}
	if err := errors.Join(set(nearClient), set(farClient)); err != nil {
		t.Fatalf("before the network parts: %v", err)
	}

	if err := s.Isolate(master.Addr, near); err != nil {
		t.Fatal(err)
	}
	if err := set(nearClient); err != nil {
		t.Errorf("a client on the master's side: %v", err)
	}
	if err := set(farClient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a client on the other side: got %v, want that nothing answers", err)
	}
	next, err := s.AwaitSuccessor(t.Context(), master)
	if err != nil {
		t.Fatal(err)
	}
	if err := set(nearClient); err == nil || !strings.Contains(err.Error(), "CLUSTERDOWN") {
		t.Errorf("the master after it was replaced: got %v, want CLUSTERDOWN", err)
	}
	if err := set(clientFrom(t, next.Addr, "127.0.0.1")); err != nil {
		t.Errorf("its successor: %v", err)
	}
	if err := s.Heal(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.AwaitReady(ctx, 3); err != nil {
		t.Fatal(err)
	}

	cut := clientFrom(t, next.Addr, "127.0.0.1")
	if err := s.CutClients(next.Addr); err != nil {
		t.Fatal(err)
	}
	if err := set(cut); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a client of a master that no client reaches: got %v, want that nothing answers", err)
	}
	if err := s.Heal(true); err != nil {
		t.Fatal(err)
	}
	if err := s.AwaitReady(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if err := set(clientFrom(t, next.Addr, "127.0.0.1")); err != nil {
		t.Errorf("after the network was healed: %v", err)
	}
}

// TestNewHost: each of many nodes has a host of its own, which no client has.
func TestNewHost(t *testing.T) {
	n := newNetwork()
	seen := make(map[string]bool)
	for range 600 {
		host := n.newHost()
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() || !isNode(host) || seen[host] {
			t.Fatalf("got %q after %d others, want another loopback address, of a node", host, len(seen))
		}
		seen[host] = true
	}
	for _, client := range []string{"127.0.0.1", "127.1.1.1"} {
		if isNode(client) {
			t.Errorf("%s is a node's, want a client's", client)
		}
	}
}

// brokenListener accepts nothing, and says why.
type brokenListener struct {
	net.Listener
	accepts, closes int
}

var errBroken = errors.New("too many open files")

func (b *brokenListener) Accept() (net.Conn, error) {
	b.accepts++
	return nil, errBroken
}

func (b *brokenListener) Close() error {
	b.closes++
	return nil
}

// TestAcceptEnds: a listener that fails is closed, and the network's end says why.
func TestAcceptEnds(t *testing.T) {
	n, b := newNetwork(), &brokenListener{}
	n.accept(b, "127.2.0.1", "1")
	if b.accepts != 1 || b.closes != 1 {
		t.Errorf("accepted %d times and closed %d times, want once", b.accepts, b.closes)
	}
	if err := n.close(); !errors.Is(err, errBroken) {
		t.Errorf("close: got %v, want %v", err, errBroken)
	}
	if err := n.close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// clientFrom returns a client of one node, whose host is from.
func clientFrom(t *testing.T, addr, from string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, DisableRetry: true,
		Dialer: net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// keyOf returns a key that a master has.
func keyOf(t *testing.T, c rueidis.Client, master Node) string {
	t.Helper()
	for i := range 1000 {
		key := strings.Repeat("k", i+1)
		slot, err := c.Do(t.Context(), c.B().ClusterKeyslot().Key(key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if master.hasSlot(int(slot)) {
			return key
		}
	}
	t.Fatal("no key")
	return ""
}
