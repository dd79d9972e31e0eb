package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

const slots = 16384

// StartCluster starts a cluster, with so many replicas of each master, and returns when all slots
// are served and all replicas have caught up. A master that does not answer for two seconds is
// failed over.
func StartCluster(ctx context.Context, masters, replicas int, o Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := launch(ctx, masters*(1+replicas), o, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
	if err != nil {
		return nil, err
	}
	if err := s.join(ctx, masters); err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: cluster: %w", err), s.Close())
	}
	return s, nil
}

// join makes a cluster of the nodes.
func (s *Server) join(ctx context.Context, masters int) error {
	var nodes []rueidis.Client
	for _, p := range s.nodes {
		c, err := p.client()
		if err != nil {
			return err
		}
		defer c.Close()
		nodes = append(nodes, c)
	}
	for i, c := range nodes[:masters] {
		from, to := i*slots/masters, (i+1)*slots/masters-1
		if _, err := do(ctx, c, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
			return err
		}
	}
	if err := s.meet(ctx, nodes); err != nil {
		return err
	}
	for i, c := range nodes[masters:] {
		id, err := do(ctx, nodes[i%masters], "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := do(ctx, c, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return awaitReady(ctx, nodes, masters)
}

// meet lets the nodes know each other.
func (s *Server) meet(ctx context.Context, nodes []rueidis.Client) error {
	for i, c := range nodes {
		if _, err := do(ctx, c, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	for _, p := range s.nodes[1:] {
		host, port, err := net.SplitHostPort(p.addr)
		if err != nil {
			return err
		}
		if _, err := do(ctx, nodes[0], "CLUSTER", "MEET", host, port, p.bus); err != nil {
			return err
		}
	}
	return poll(ctx, "the nodes to know each other", func() bool {
		for _, c := range nodes {
			text, err := do(ctx, c, "CLUSTER", "NODES")
			if err != nil || strings.Count(text, "connected") != len(nodes) || strings.Contains(text, "handshake") {
				return false
			}
		}
		return true
	})
}

// awaitReady waits until each node serves, all know the same masters with all slots and all
// replicas, and those have caught up.
func awaitReady(ctx context.Context, nodes []rueidis.Client, masters int) error {
	return poll(ctx, "the cluster to be ready", func() bool {
		first := ""
		for i, c := range nodes {
			info, err1 := do(ctx, c, "CLUSTER", "INFO")
			text, err2 := do(ctx, c, "CLUSTER", "NODES")
			link, err3 := do(ctx, c, "INFO", "replication")
			known := parseNodes(text)
			if i == 0 {
				first = layout(known)
			}
			if errors.Join(err1, err2, err3) != nil || !strings.Contains(info, "cluster_state:ok") ||
				!isWhole(known, masters, len(nodes)-masters) || layout(known) != first ||
				strings.Contains(link, "role:slave") && !strings.Contains(link, "master_link_status:up") {
				return false
			}
		}
		return true
	})
}

// isWhole reports whether there are so many masters, with all slots, and so many replicas.
func isWhole(nodes []Node, masters, replicas int) bool {
	served := 0
	for _, n := range Masters(nodes) {
		masters--
		for _, s := range n.spans {
			served += s.last - s.first + 1
		}
	}
	for _, n := range nodes {
		if n.Master != "" && !n.Failed {
			replicas--
		}
	}
	return masters == 0 && replicas == 0 && served == slots
}

// layout returns which master has which slots, as text.
func layout(nodes []Node) string {
	masters := Masters(nodes)
	slices.SortFunc(masters, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	var text strings.Builder
	for _, m := range masters {
		fmt.Fprintln(&text, m.ID, m.spans)
	}
	return text.String()
}

// do sends a command to one node. Of a text that names its format it returns the text.
func do(ctx context.Context, c rueidis.Client, words ...string) (string, error) {
	text, err := c.Do(ctx, c.B().Arbitrary(words...).Build()).ToString()
	return strings.TrimPrefix(text, "txt:"), err
}
