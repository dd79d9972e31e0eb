package dburl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
)

// redisURL is what a URL of Redis says.
type redisURL struct {
	client  rueidis.ClientOption
	options redis.Options
}

// redisScheme is what the scheme of a URL of Redis says.
type redisScheme struct{ isTLS, isSentinel bool }

// redisSchemes are the schemes of Redis.
var redisSchemes = map[string]redisScheme{
	"redis":           {},
	"rediss":          {isTLS: true},
	"redis+sentinel":  {isSentinel: true},
	"rediss+sentinel": {isTLS: true, isSentinel: true},
}

// How a URL of Redis looks, and one of the Sentinels of a Redis.
const (
	redisForm    = "it is redis://user:password@host:port?namespace=name, or rediss: for TLS, with host:port,host:port for a cluster"
	sentinelForm = "it is redis+sentinel://user:password@host:port,host:port/master-name?namespace=name, or rediss+sentinel: for TLS"
)

// The default ports.
const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// refreshInterval is how often the client asks the Sentinels for the master, in case that it has
// missed their message.
const refreshInterval = 5 * time.Second

// hangTimeout is how long a server may hang before it is given up: a worker's other servers wait
// for it. It is what docs/redis.md uses.
const hangTimeout = 3 * time.Second

// parseRedis reads what follows the scheme. No error contains what stands where a password may be.
func parseRedis(rest string, scheme redisScheme) (*redisURL, error) {
	form, port := redisForm, redisPort
	if scheme.isSentinel {
		form, port = sentinelForm, sentinelPort
	}
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return nil, invalid("// must follow the scheme: %s", form)
	}
	u := &redisURL{client: rueidis.ClientOption{DisableCache: true, ConnWriteTimeout: hangTimeout}}
	u.options.Namespace = "errand"
	at := strings.LastIndex(rest, "@")
	if at >= 0 {
		if err := u.setUser(rest[:at]); err != nil {
			return nil, err
		}
	}
	if u.client.Password == "" {
		u.client.Password = os.Getenv("REDISCLI_AUTH")
	}
	place, query, hasQuery := strings.Cut(rest[at+1:], "?")
	if strings.Contains(rest[at+1:], "#") {
		return nil, invalid("a # after the hosts: in a user or password it is written %%23; %s", form)
	}
	hosts, path, _ := strings.Cut(place, "/")
	if hosts == "" {
		return nil, invalid("no host: %s", form)
	}
	if err := u.setHosts(hosts, port); err != nil {
		return nil, err
	}
	params, err := redisParams(query, hasQuery)
	if err != nil {
		return nil, err
	}
	if err := u.setOptions(params); err != nil {
		return nil, err
	}
	if err := u.setTLS(params, scheme.isTLS); err != nil {
		return nil, err
	}
	return u, u.setSentinel(path, params, scheme.isSentinel)
}

// setSentinel reads what follows the hosts: the name of a master that Sentinels watch.
func (u *redisURL) setSentinel(path string, params map[string]string, isSentinel bool) error {
	name, password := params["sentinel-user"], params["sentinel-password"]
	if !isSentinel {
		switch {
		case path != "" && path != "0":
			return invalid("a database number other than 0 after the hosts: a cluster has none; namespace=name keeps queues apart")
		case name != "" || password != "":
			return invalid("sentinel-user and sentinel-password are for Sentinels: %s", sentinelForm)
		}
		return nil
	}
	master, err := url.PathUnescape(path)
	if err != nil || master == "" || strings.Contains(path, "/") {
		return invalid("the name of a master, as the Sentinels know it, follows the hosts: %s", sentinelForm)
	}
	u.client.Sentinel = rueidis.SentinelOption{
		MasterSet: master, Username: name, Password: password, TLSConfig: u.client.TLSConfig, TopologyRefreshInterval: refreshInterval,
	}
	return nil
}

// setUser reads what stands before the last @.
func (u *redisURL) setUser(text string) (err error) {
	if strings.ContainsAny(text, "@/?#") {
		return invalid("there is one @, before the hosts: in a user or password it is written %%40, a / %%2F, a ? %%3F, and a # %%23")
	}
	name, password, _ := strings.Cut(text, ":")
	if u.client.Username, err = url.PathUnescape(name); err == nil {
		u.client.Password, err = url.PathUnescape(password)
	}
	if err != nil { // which would quote a part
		return invalid("special characters in the user or the password are percent-encoded: a %% itself is written %%25")
	}
	return nil
}

// setHosts reads the hosts. They are not quoted in an error: without an @ a password may be there.
func (u *redisURL) setHosts(text, port string) error {
	for i, one := range strings.Split(text, ",") {
		host, port, err := splitHost(one, port)
		if err != nil {
			return invalid("host %d: %s", i+1, err)
		}
		u.client.InitAddress = append(u.client.InitAddress, net.JoinHostPort(host, port))
	}
	return nil
}

// splitHost reads host, host:port, [IPv6] or [IPv6]:port.
func splitHost(text, defaultPort string) (host, port string, err error) {
	host, port = text, defaultPort
	if end := strings.LastIndex(text, ":"); end >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:end], text[end+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", errors.New("the port is a number from 1 to 65535, and a password is followed by @")
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok || net.ParseIP(inner) == nil {
			return "", "", errors.New("no IPv6 address between [ and ]")
		}
		return inner, port, nil
	}
	switch {
	case host == "":
		return "", "", errors.New("no name")
	case strings.ContainsAny(host, ":[]"):
		return "", "", errors.New("an IPv6 address is written [address]:port, and a password is followed by @")
	case strings.ContainsAny(host, " %<>\\^`{|}\""):
		return "", "", errors.New("a character that no name of a host has")
	}
	return host, port, nil
}

// redisParams reads the parameters, each of which is given once.
func redisParams(query string, hasQuery bool) (map[string]string, error) {
	params := make(map[string]string)
	if !hasQuery {
		return params, nil
	}
	const known = "namespace, partitions, spread, durable, cacert, cert, key, sentinel-user and sentinel-password"
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalid("each parameter is name=value, and special characters are percent-encoded: there are %s", known)
	}
	for name, all := range values {
		switch name {
		case "namespace", "partitions", "spread", "durable", "cacert", "cert", "key", "sentinel-user", "sentinel-password":
		default: // perhaps a part of a password
			return nil, invalid("a parameter is not known: there are %s", known)
		}
		if len(all) > 1 || all[0] == "" {
			return nil, invalid("the parameter %s is given once, and with a value", name)
		}
		params[name] = all[0]
	}
	return params, nil
}

// setOptions sets the options of the backend. The backend checks them.
func (u *redisURL) setOptions(params map[string]string) error {
	if name, ok := params["namespace"]; ok {
		u.options.Namespace = name
	}
	for name, value := range map[string]*int{"partitions": &u.options.Partitions, "spread": &u.options.Spread, "durable": &u.options.Durable} {
		text, ok := params[name]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return invalid("the parameter %s is a whole number from 1 on", name)
		}
		*value = n
	}
	return nil
}

// setTLS sets how servers are recognized.
func (u *redisURL) setTLS(params map[string]string, isTLS bool) error {
	cacert, cert, key := params["cacert"], params["cert"], params["key"]
	if !isTLS {
		if cacert != "" || cert != "" || key != "" {
			return invalid("cacert, cert and key are for TLS: the scheme is rediss or rediss+sentinel")
		}
		return nil
	}
	u.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if cacert != "" {
		text, err := os.ReadFile(cacert)
		if err != nil {
			return invalid("cacert: %s", err)
		}
		u.client.TLSConfig.RootCAs = x509.NewCertPool()
		if !u.client.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return invalid("cacert: the file %s has no certificate in PEM", cacert)
		}
	}
	if (cert == "") != (key == "") {
		return invalid("cert and key are given together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return invalid("cert and key: %s", err)
		}
		u.client.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}
