package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/web"
)

const (
	// webConnections is one for each call of the backend that the dashboard has under way.
	webConnections = 6
	// readTime is how long a browser may take to send a request. Pages and actions, which end when
	// it is over, take less.
	readTime = 30 * time.Second
	// drainTime is how long requests may take after the program was told to end, and actionTime
	// is the same for actions whose forms have arrived.
	drainTime  = 2 * time.Second
	actionTime = 12 * time.Second // each of them ends earlier
)

// webOptions are the flags of errand web.
type webOptions struct {
	addr     string
	hosts    []string
	isRemote bool
	readOnly bool
}

func (a app) webCommand() *cobra.Command {
	var o webOptions
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the dashboard to this machine's browser",
		Long: `web serves the dashboard until it is interrupted, and prints the URL. The URL
has a random token in it, a new token at each start. Anyone who knows the URL may
see every payload and act on jobs, with the rights of the database's user. In the
audit log the actor is the user who runs this program, with the host.

web listens on this machine only. To open the dashboard from a different machine,
forward the port: ssh -L 8080:127.0.0.1:8080 HOST, and on the host errand web
--addr 127.0.0.1:8080. Requests for other host names than localhost, 127.0.0.1 and
::1 are refused, unless --host gives the name, so no website can reach the
dashboard by DNS rebinding.

When web is told to end, it waits two seconds for open requests, or until an
action has ended.`,
		Example: `  errand web
  errand web --addr 127.0.0.1:8080 --read-only`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", "127.0.0.1:0", "listen on this `HOST:PORT`; port 0 means any free port")
	flags.StringSliceVar(&o.hosts, "host", nil, "answer to this `NAME` as well, such as that of a proxy")
	flags.BoolVar(&o.isRemote, "remote", false, "allow an --addr that other machines reach: anyone who sees the URL or\n"+
		"the traffic, which is not encrypted, may do all that you may")
	flags.BoolVar(&o.readOnly, "read-only", false, "show no actions, and refuse them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		addr, err := o.listenAddr()
		if err != nil {
			return err
		}
		g, err := newGate(o.hosts)
		if err != nil {
			return err
		}
		return a.Examining(func(ctx context.Context, d *dburl.Database, _ []string) error {
			return a.serveWeb(ctx, d, g, addr, o.readOnly)
		})(cmd, args)
	}
	return cmd
}

// listenAddr returns the address to listen on. Other machines may only reach it with --remote.
func (o webOptions) listenAddr() (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", o.addr)
	if err != nil {
		return nil, cli.Usagef("--addr %s: %v", o.addr, err)
	}
	if !addr.IP.IsLoopback() && !o.isRemote {
		return nil, cli.Refusedf("--addr %s: other machines reach this address: forward the port of 127.0.0.1 instead, or give --remote (see --help)", o.addr)
	}
	return addr, nil
}

// serveWeb serves the dashboard until ctx ends.
func (a app) serveWeb(ctx context.Context, d *dburl.Database, g *gate, addr *net.TCPAddr, isReadOnly bool) error {
	if d.DB != nil {
		d.DB.SetMaxOpenConns(webConnections)
	}
	if err := a.checkTables(ctx, d); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.Err, nil))
	me := web.Access{Actor: cli.Actor(), May: web.Admin}
	dashboard, err := web.New(d.Queue, web.Options{
		Authorize: func(*http.Request) web.Access { return me },
		ReadOnly:  isReadOnly,
		Logger:    log,
	})
	if err != nil {
		return err
	}
	defer dashboard.Close()
	listener, err := net.Listen("tcp", addr.String())
	if err != nil {
		return err
	}
	url := g.open(listener.Addr().(*net.TCPAddr), dashboard)
	if err := a.WriteOne(struct {
		URL string `json:"url"`
	}{url}, url); err != nil {
		listener.Close()
		return err
	}
	return serve(ctx, listener, g, log)
}

// checkTables returns an error if the queue's tables cannot be read.
func (a app) checkTables(ctx context.Context, d *dburl.Database) error {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	return a.Step(ctx, d, func(ctx context.Context) error {
		_, _, err := inspector.Jobs(ctx, queue.Filter{Limit: 1, Bare: true})
		return err
	})
}
