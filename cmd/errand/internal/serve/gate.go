package serve

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// gate lets a request through to the dashboard if its path begins with the token, and its Host is
// the name of this machine.
//
// The token is the first part of the path. The dashboard's links are relative, so the browser keeps
// it without a cookie, and tabs for other programs on other ports of this machine never send it.
type gate struct {
	token string
	hosts []string // besides the addresses and names of loopback
	next  http.Handler
}

// hostPattern matches the names that a browser sends as Host, as hostName returns them.
var hostPattern = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// newGate returns a gate that answers to hosts, too. open has to be called before it is used.
func newGate(hosts []string) (*gate, error) {
	g := &gate{token: rand.Text()}
	for _, host := range hosts {
		name := hostName(host)
		if net.ParseIP(name) == nil && !hostPattern.MatchString(name) {
			return nil, cli.Usagef("--host %s: a name or an address alone, without port or path, and no pattern", host)
		}
		g.hosts = append(g.hosts, name)
	}
	return g, nil
}

// open sets the handler behind the gate, and returns the URL under which the listener at addr
// serves it.
func (g *gate) open(addr *net.TCPAddr, next http.Handler) string {
	g.next = http.StripPrefix("/"+g.token, next)
	host := addr.IP.String()
	switch {
	case len(g.hosts) > 0:
		host = g.hosts[0]
	case addr.IP.IsUnspecified():
		host = "localhost"
	default:
		g.hosts = append(g.hosts, host)
	}
	return fmt.Sprintf("http://%s/%s/", net.JoinHostPort(host, fmt.Sprint(addr.Port)), g.token)
}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.answersTo(r.Host) {
		http.Error(w, "errand web answers to localhost, and to the names of --host", http.StatusMisdirectedRequest)
		return
	}
	token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 {
		http.Error(w, "open the URL that errand web has printed: the token in it is missing or wrong", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

// answersTo reports whether a request's Host names this machine, and not a name that an attacker's
// DNS server makes point to it.
func (g *gate) answersTo(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = hostName(host)
	return host == "localhost" || net.ParseIP(host).IsLoopback() || slices.Contains(g.hosts, host)
}

// hostName returns a host as names are compared: in lower case, without the brackets of IPv6 and
// without the dot of the root.
func hostName(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
