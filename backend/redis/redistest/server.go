package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// Options configure [Start] and [StartCluster]. The zero value is a server for tests, which writes
// nothing to disk.
type Options struct {
	// Durable makes the server write its append-only file each second, as one with real data does.
	Durable bool
	// Settings are further settings by name, such as "maxmemory": "100mb". They override all others.
	Settings map[string]string
	// Environment is added to that of the server: "name=value".
	Environment []string
	// Prepare, if not nil, is called with the empty folder of a node before it starts. A file
	// system that it mounts there is unmounted when the node has ended.
	Prepare func(dir string) error
	// Splits puts a network between the nodes of a cluster, and between them and their clients,
	// that [Server.Isolate] parts. Linux only.
	Splits bool

	// config is the text of a configuration file, which is given to the server; "" means none.
	config string
}

// args returns the server's arguments for o.
func (o Options) args() []string {
	all := map[string]string{"save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"}
	if o.Durable {
		all["appendonly"], all["appendfsync"] = "yes", "everysec"
	}
	var args []string
	for name, value := range all {
		if _, ok := o.Settings[name]; !ok {
			args = append(args, "--"+name, value)
		}
	}
	for name, value := range o.Settings {
		args = append(args, "--"+name, value)
	}
	return args
}

// Server is a Redis that belongs to this process: one node, or a cluster.
type Server struct {
	// Addrs are the nodes' addresses, "host:port": of a new cluster the masters' first. Kill removes
	// one, and AddReplica adds one.
	Addrs []string

	nodes   []*process
	network *network                                    // nil without Splits
	launch  func(ctx context.Context) (*process, error) // starts another node
}

// Client returns a client of the server, which the caller closes.
func (s *Server) Client() (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: s.Addrs, DisableCache: true, ForceSingleClient: len(s.Addrs) == 1})
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return client, nil
}

// Close ends all nodes and removes their data. Further calls do nothing.
func (s *Server) Close() error {
	var err error
	for _, n := range s.nodes {
		err = cmp.Or(err, n.stop())
	}
	if s.nodes = nil; s.network != nil {
		err = cmp.Or(err, s.network.close())
	}
	return err
}

// Kill ends the node with that address at once, as kill -9 does, and removes its data.
func (s *Server) Kill(addr string) error {
	p, err := s.node(addr)
	if err != nil {
		return err
	}
	s.nodes = slices.DeleteFunc(s.nodes, func(n *process) bool { return n == p })
	// Clients that were opened with Addrs read that slice at any time.
	s.Addrs = slices.DeleteFunc(slices.Clone(s.Addrs), func(a string) bool { return a == addr })
	return p.stop()
}

// ErrNoServer is the error where there is no redis-server to start.
var ErrNoServer = errors.New("redistest: there is no redis-server on this machine")

// find returns the path of the server's program.
func find() (string, error) {
	if name := os.Getenv("ERRAND_REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("redistest: ERRAND_REDIS_SERVER: %w", err)
		}
		return filepath.Abs(path) // it is started in another folder
	}
	for _, name := range []string{"redis-server", "/usr/bin/redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// Start starts one node, and returns when it accepts connections. ctx has no effect on it later.
func Start(ctx context.Context, o Options) (*Server, error) { return launch(ctx, 1, o) }

// startTimeout bounds how long servers take to be ready, on a busy machine.
const startTimeout = time.Minute

// launch starts nodes that know nothing of each other.
func launch(ctx context.Context, n int, o Options, more ...string) (*Server, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Server{}
	if o.Splits {
		s.network = newNetwork()
	}
	s.launch = func(ctx context.Context) (*process, error) { return s.start(ctx, program, o, more) }
	for range n {
		p, err := s.launch(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.nodes, s.Addrs = append(s.nodes, p), append(s.Addrs, p.addr)
	}
	return s, nil
}

// start starts a node, and puts the network before it if there is one.
func (s *Server) start(ctx context.Context, program string, o Options, more []string) (*process, error) {
	args := append(o.args(), more...)
	if s.network == nil {
		return start(ctx, program, args, o)
	}
	host := s.network.newHost()
	p, err := start(ctx, program, append(args, "--cluster-announce-ip", host, "--bind-source-addr", host), o)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(p.direct)
	if err = cmp.Or(err, s.network.serve(ctx, host, port)); err == nil {
		err = s.network.serve(ctx, host, p.bus)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.addr = net.JoinHostPort(host, port)
	return p, nil
}

// poll calls done until it returns true, or ctx ends.
func poll(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("redistest: waited for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
