package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// The methods here break a cluster and mend it again. Like Kill they must not be called
// concurrently with each other, nor with Client.

// Freeze stops the node with that address as SIGSTOP does: its connections stay, and it answers
// nobody until Thaw.
func (s *Server) Freeze(ctx context.Context, addr string) error {
	p, err := s.node(addr)
	if err != nil {
		return err
	}
	return p.freeze(ctx)
}

// Directory returns the folder of the node with that address.
func (s *Server) Directory(ctx context.Context, addr string) (string, error) {
	p, err := s.node(addr)
	if err != nil {
		return "", err
	}
	c, err := p.client()
	if err != nil {
		return "", fmt.Errorf("redistest: %w", err)
	}
	defer c.Close()
	found, err := c.Do(ctx, c.B().ConfigGet().Parameter("dir").Build()).AsStrMap()
	if err != nil {
		return "", fmt.Errorf("redistest: %s: %w", addr, err)
	}
	return found["dir"], nil
}

// HasEnded reports whether the node with that address has ended, or was killed.
func (s *Server) HasEnded(addr string) bool {
	p, err := s.node(addr)
	return err != nil || p.hasEnded()
}

// Thaw lets a frozen node go on.
func (s *Server) Thaw(addr string) error {
	p, err := s.node(addr)
	if err != nil {
		return err
	}
	return p.thaw()
}

// node returns the process with that address.
func (s *Server) node(addr string) (*process, error) {
	i := slices.IndexFunc(s.nodes, func(p *process) bool { return p.addr == addr })
	if i < 0 {
		return nil, fmt.Errorf("redistest: there is no node %s", addr)
	}
	return s.nodes[i], nil
}

// askTimeout bounds how long one node may take to say what it knows.
const askTimeout = time.Second

// ask sends a command to one node, on a connection of its own.
func (p *process) ask(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := p.client()
	if err != nil {
		return "", err
	}
	defer c.Close()
	return do(ctx, c, words...)
}

// Nodes returns the nodes of a cluster, as the first node sees them that answers and is not
// isolated.
func (s *Server) Nodes(ctx context.Context) (nodes []Node, err error) {
	for _, p := range s.nodes {
		if p.isFrozen || p.isAway {
			continue
		}
		var text string
		if text, err = p.ask(ctx, "CLUSTER", "NODES"); err == nil {
			return parseNodes(text), nil
		}
	}
	return nil, fmt.Errorf("redistest: no node answers: %w", err)
}

// Info returns a section of INFO of each node that is not frozen.
func (s *Server) Info(ctx context.Context, section string) (texts []string, err error) {
	for _, p := range s.nodes {
		if p.isFrozen {
			continue
		}
		text, err := p.ask(ctx, "INFO", section)
		if err != nil {
			return nil, fmt.Errorf("redistest: %s: %w", p.addr, err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// AwaitSuccessor waits until another node has the slots of a master, and returns it.
func (s *Server) AwaitSuccessor(ctx context.Context, of Node) (next Node, err error) {
	err = poll(ctx, "a successor of "+of.Addr, func() bool {
		nodes, err := s.Nodes(ctx)
		if err != nil {
			return false
		}
		for _, n := range nodes {
			if n.isMaster() && n.ID != of.ID && n.sharesSlots(of) {
				next = n
				return true
			}
		}
		return false
	})
	return next, err
}

// AddReplica starts a node, makes it a replica of a master, and returns when it has caught up.
func (s *Server) AddReplica(ctx context.Context, master Node) error {
	of, err := s.node(master.Addr)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(of.addr)
	if err != nil {
		return err
	}
	p, err := s.launch(ctx)
	if err != nil {
		return err
	}
	s.nodes, s.Addrs = append(s.nodes, p), append(s.Addrs, p.addr)
	if _, err := p.ask(ctx, "CLUSTER", "MEET", host, port, of.bus); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	var last error
	err = poll(ctx, "a replica to know its master", func() bool {
		_, last = p.ask(ctx, "CLUSTER", "REPLICATE", master.ID)
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return poll(ctx, "a replica to catch up", func() bool {
		link, err := p.ask(ctx, "INFO", "replication")
		return err == nil && strings.Contains(link, "master_link_status:up")
	})
}

// Forget makes all nodes forget one that has been killed and has a successor.
func (s *Server) Forget(ctx context.Context, dead Node) error {
	for _, p := range s.nodes {
		if _, err := p.ask(ctx, "CLUSTER", "FORGET", dead.ID); err != nil && !strings.Contains(err.Error(), "Unknown node") {
			return fmt.Errorf("redistest: %s: forget %s: %w", p.addr, dead.Addr, err)
		}
	}
	return nil
}

// FailOver makes a replica take the place of its master, which agrees (CLUSTER FAILOVER).
func (s *Server) FailOver(ctx context.Context, replica Node) error {
	p, err := s.node(replica.Addr)
	if err != nil {
		return err
	}
	if _, err := p.ask(ctx, "CLUSTER", "FAILOVER"); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return poll(ctx, "a replica to become a master", func() bool {
		role, err := p.ask(ctx, "INFO", "replication")
		return err == nil && strings.Contains(role, "role:master")
	})
}

// AwaitReady waits until all nodes agree which of so many masters serves which slots, and all other
// nodes are replicas that have caught up. Two slots that move without it in between can give two
// masters the same epoch, and then replicas may never learn who has the second one.
func (s *Server) AwaitReady(ctx context.Context, masters int) error {
	var nodes []rueidis.Client
	for _, p := range s.nodes {
		c, err := p.client()
		if err != nil {
			return err
		}
		defer c.Close()
		nodes = append(nodes, c)
	}
	return awaitReady(ctx, nodes, masters)
}
