package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/queue"
)

// gatewayFlags are the flags of errand gateway.
type gatewayFlags struct {
	addr              string
	tokens, cert, key string // files
	isPlain           bool
	log               string
	drainWait         time.Duration
	connections       int
	retention         queue.Retention
	options           gateway.Options
}

func (a app) gatewayCommand() *cobra.Command {
	var o gatewayFlags
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the queue over HTTP to workers without a database",
		Long: `gateway serves the queue over HTTP until it is told to end: to Go programs with
backend/remote, and to any HTTP client (GET /openapi.json describes the API). It
also reclaims and prunes jobs and fires schedules, as a worker does.

The file of --tokens says who may do what. It is JSON:

  {"tokens": [
    {"name": "fleet", "secret": "SECRET", "queues": ["*"], "may": ["work"]},
    {"name": "shop", "secret_env": "SHOP_TOKEN", "queues": ["orders"],
     "may": ["enqueue", "read"], "max_requests": 50, "max_enqueued": 500},
    {"name": "print", "secret": "SECRET", "queues": ["labels"], "may": ["work"],
     "workers": "print-"}
  ]}

  name          the client's, for the log; rates are counted by it
  secret        at least 16 characters, which nobody can guess: openssl rand -hex 24
  secret_env    the environment variable that has the secret
  queues        the queues that the client may use; "*" means all
  may           enqueue, claim, extend, settle, read, cancel; work is claim, extend
                and settle; everything is all
  workers       what the names of the client's workers must begin with; needed for
                work on some queues only
  max_requests  the requests and the jobs to enqueue a second, if they are not to be
  max_enqueued  those of the flags; -1 means any number

Two tokens may have the same name if all but the secret is the same: so a secret
changes without a break. Without --tokens, ERRAND_GATEWAY_TOKENS has the text. The
file must not be readable by all users of the machine. The gateway looks every two
seconds, and at SIGHUP, whether the files of --tokens, --tls-cert and --tls-key have
changed. If a new file is bad, it says so and goes on with the old one.

Beyond this machine the gateway needs TLS, or --plain-http. GET /live and GET /ready
answer probes, without a token. When it is told to end, /ready answers 503, clients
that wait are sent to other gateways, and no job is claimed; workers may settle for
--drain-wait, and then open requests end. A second signal ends it at once.`,
		Example: `  errand gateway --tokens tokens.json
  errand gateway --tokens tokens.json --addr :8443 --tls-cert tls.crt --tls-key tls.key`,
		Args: cobra.NoArgs,
	}
	o.define(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := a.newGatewayServer(o)
		if err != nil {
			return err
		}
		return a.Opening(dburl.Options{MustExist: true, Retention: o.retention, Application: "errand-gateway"},
			func(ctx context.Context, d *dburl.Database, _ []string) error { return a.serveGateway(ctx, d, g) })(cmd, args)
	}
	return cmd
}

// define defines the flags.
func (o *gatewayFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "listen on this `HOST:PORT`; :8443 means all addresses")
	flags.StringVar(&o.tokens, "tokens", "", "the `FILE` that says who may do what")
	flags.StringVar(&o.cert, "tls-cert", "", "serve TLS with the certificates in this PEM `FILE`")
	flags.StringVar(&o.key, "tls-key", "", "the PEM `FILE` of the certificate's key")
	flags.BoolVar(&o.isPlain, "plain-http", false, "allow an --addr that other machines reach without TLS: for a\n"+
		"proxy in front that adds it, as tokens travel in each request")
	flags.StringVar(&o.log, "log", "text", "`format` of the log on standard error: text or json")
	flags.DurationVar(&o.drainWait, "drain-wait", 5*time.Second, "how long to serve on after being told to end, so that load\nbalancers notice; 0 means not at all")
	flags.IntVar(&o.connections, "connections", 20, "how many connections to the database there may be")
	flags.DurationVar(&o.retention.Completed, "keep-completed", 0, "how long completed jobs are kept, as your workers say in\ntheir Retention (default 168h); -1s means not at all")
	flags.DurationVar(&o.retention.Dead, "keep-dead", 0, "how long dead and cancelled jobs are kept (default 720h)")
	flags.BoolVar(&o.retention.Archive, "archive", false, "archive jobs instead of deleting them")
	flags.IntVar(&o.options.MaxRequests, "max-requests", 0, "how many requests a second a client may send (default any)")
	flags.IntVar(&o.options.MaxEnqueued, "max-enqueued", 0, "how many jobs a second a client may enqueue (default any)")
	flags.IntVar(&o.options.MaxWaiting, "max-waiting", 10_000, "how many clients may wait at once")
	flags.IntVar(&o.options.MaxJobs, "max-jobs", 10_000, "how many jobs a request may have")
	flags.IntVar(&o.options.MaxPayload, "max-payload", queue.DefaultMaxPayload, "how many bytes a payload may have")
	flags.Int64Var(&o.options.MaxBody, "max-body", 64<<20, "how many bytes a request may have")
	for _, name := range []string{"tokens", "tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	_ = cmd.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// gatewayServer is a gateway that is about to serve: its files are read.
type gatewayServer struct {
	gatewayFlags
	listen *net.TCPAddr
	list   *tokenList
	certs  *certificate // nil: no TLS
	logger *slog.Logger
}

// newGatewayServer checks the flags, and reads the files.
func (a app) newGatewayServer(o gatewayFlags) (*gatewayServer, error) {
	g := &gatewayServer{gatewayFlags: o}
	var err error
	if g.listen, err = net.ResolveTCPAddr("tcp", o.addr); err != nil {
		return nil, cli.Usagef("--addr %s: %v", o.addr, err)
	}
	switch {
	case (o.cert == "") != (o.key == ""):
		return nil, cli.Usagef("--tls-cert and --tls-key are given together")
	case o.cert == "" && !g.listen.IP.IsLoopback() && !o.isPlain:
		return nil, cli.Refusedf("--addr %s: other machines reach this address, and tokens travel in each request: "+
			"give --tls-cert and --tls-key, or --plain-http behind a proxy that adds TLS", o.addr)
	case o.cert != "":
		if g.certs, err = newCertificate(o.cert, o.key); err != nil {
			return nil, cli.Usagef("%w", err)
		}
	}
	if g.logger, err = newLog(a.Err, o.log); err != nil {
		return nil, err
	}
	if g.list, err = a.readTokens(o.tokens); err != nil {
		return nil, asUsage(err)
	}
	g.options.Tokens, g.options.Logger = g.list.tokens, g.logger
	return g, nil
}

// newLog returns a log in a format.
func newLog(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, cli.Usagef("--log %s: text or json", format)
}

// serveGateway serves until ctx ends, and then drains.
func (a app) serveGateway(ctx context.Context, d *dburl.Database, g *gatewayServer) error {
	if d.DB != nil {
		d.DB.SetMaxOpenConns(g.connections)
		d.DB.SetMaxIdleConns(g.connections)
	}
	if err := a.checkTables(ctx, d); err != nil {
		return err
	}
	handler, err := gateway.New(d.Queue, g.options)
	if err != nil {
		return asUsage(g.list.explain(err))
	}
	defer handler.Close()
	listener, err := net.Listen("tcp", g.listen.String())
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	if g.certs != nil {
		url = "https://" + listener.Addr().String()
		listener = tls.NewListener(listener, g.certs.config())
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go a.newReloader(g, handler).watch(watching)
	if err := a.WriteOne(struct {
		URL string `json:"url"`
	}{url}, url); err != nil {
		listener.Close()
		return err
	}
	g.logger.Info("errand: gateway: serving", "url", url, "clients", g.list.names())
	return g.serve(ctx, listener, d.Queue, handler)
}

// asUsage returns an error of the tokens as one of wrong usage, unless the file was refused.
func asUsage(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return cli.Refusedf("%w", err)
	}
	return cli.Usagef("%w", err)
}
