package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/errandhq/errand/gateway"
)

// lookEvery is how often the files are looked at.
const lookEvery = 2 * time.Second

// reloader takes changed files while the gateway serves.
type reloader struct {
	log    *slog.Logger
	parts  []*reloaded
	hangUp chan os.Signal
}

// reloaded is what comes from files. What they have is only tried once.
type reloaded struct {
	what  string
	files []string
	sum   []byte // of what was tried last
	load  func() (args []any, err error)
}

func (a app) newReloader(g *gatewayServer, handler *gateway.Handler) *reloader {
	r := &reloader{log: g.logger, hangUp: make(chan os.Signal, 1)}
	signal.Notify(r.hangUp, syscall.SIGHUP)
	if name := g.tokens; name != "" {
		r.add("tokens", []string{name}, func() ([]any, error) {
			l, err := a.readTokens(name)
			if err != nil {
				return nil, err
			}
			return []any{"clients", l.names()}, l.explain(handler.SetTokens(l.tokens))
		})
	}
	if g.certs != nil {
		r.add("certificate", []string{g.cert, g.key}, func() ([]any, error) {
			return []any{"file", g.cert}, g.certs.load()
		})
	}
	return r
}

// add adds files that were just loaded.
func (r *reloader) add(what string, files []string, load func() ([]any, error)) {
	p := &reloaded{what: what, files: files, load: load}
	p.sum = p.summed()
	r.parts = append(r.parts, p)
}

// watch looks at the files until ctx ends: every two seconds, and at SIGHUP.
func (r *reloader) watch(ctx context.Context) {
	defer signal.Stop(r.hangUp)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		isAsked := false
		select {
		case <-ctx.Done():
			return
		case <-r.hangUp:
			isAsked = true
		case <-tick.C:
		}
		for _, p := range r.parts {
			r.look(p, isAsked)
		}
	}
}

// look loads files if they have changed, or if a person has asked for it.
func (r *reloader) look(p *reloaded, isAsked bool) {
	sum := p.summed()
	if bytes.Equal(sum, p.sum) && !isAsked {
		return
	}
	p.sum = sum
	args, err := p.load()
	if err != nil {
		r.log.Error("errand: gateway: new "+p.what+" not taken, the old ones stay", "error", err)
		return
	}
	r.log.Info("errand: gateway: new "+p.what+" taken", args...)
}

// summed returns a sum of what the files have, and of who may read them.
func (p *reloaded) summed() []byte {
	h := sha256.New()
	for _, name := range p.files {
		text, err := os.ReadFile(name)
		info, _ := os.Stat(name)
		if err == nil && info != nil {
			fmt.Fprint(h, info.Mode())
		}
		fmt.Fprintln(h, len(text), err)
		h.Write(text)
	}
	return h.Sum(nil)
}

// names returns the names of the clients.
func (l *tokenList) names() (list []string) {
	for _, t := range l.tokens {
		list = append(list, t.Access.Name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// certificate is a certificate whose files may change.
type certificate struct {
	cert, key string // files
	current   atomic.Pointer[tls.Certificate]
}

func newCertificate(cert, key string) (*certificate, error) {
	c := &certificate{cert: cert, key: key}
	return c, c.load()
}

// load takes what the files have. After an error the certificate stays.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s and --tls-key %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	return nil
}

// config returns the TLS of a server with the certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
