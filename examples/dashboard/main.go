// Dashboard is a shop under load, with errand's dashboard mounted beside the shop's own login:
//
//	go run ./examples/dashboard                  then open the address that it prints
//	go run ./examples/dashboard -addr :9000      elsewhere
//
// Log in as ann, who is on call and may act on jobs, or as bob, who may look. The shop confirms
// orders by mail, delivers webhooks to eight partners, makes reports that show their progress, and
// has jobs that no worker serves. One partner is often down. The dashboard shows all of that. The
// program runs until it is interrupted.
//
// Where to read: login.go mounts the dashboard; shop.go has the kinds, the handlers and the load.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/examples/internal/place"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	length := flag.Duration("for", 0, "stop after this time; 0: run until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *length > 0 {
		ctx, stop = context.WithTimeout(ctx, *length)
		defer stop()
	}
	if err := find(ctx, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// find runs the shop on the database that it finds.
func find(ctx context.Context, addr string) (err error) {
	database, err := place.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Remove()) }()
	fmt.Println(database.Description)
	return run(ctx, database.URL, addr, func(url string) {
		fmt.Printf("\n  %s/errand/\n\nLog in as ann (on call) or bob (may look), with the password %q. Ctrl-C ends it.\n", url, password)
	})
}

// run runs the shop and its website until ctx ends. It calls ready with the website's address.
func run(ctx context.Context, databaseURL, addr string, ready func(url string)) error {
	d, err := dburl.Open(databaseURL, dburl.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	site, err := newSite(d.Queue)
	if err != nil {
		return err
	}
	defer site.dashboard.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w (choose another with -addr)", err)
	}
	server := &http.Server{Handler: site, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(listener) }()
	go func() { ended <- work(ctx, d.Queue) }()
	ready(siteURL(listener.Addr()))

	err = <-ended
	if ctx.Err() == nil {
		server.Close()
		return err // one of them has failed
	}
	server.Close()
	if second := <-ended; !errors.Is(second, http.ErrServerClosed) {
		err = second
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// siteURL returns an address that a browser on this machine opens, also if the server listens on
// all of the machine's addresses.
func siteURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d", tcp.Port)
	}
	return "http://" + addr.String()
}
