// Package server has what bench and chaos need to run servers and to connect to them.
package server

import "net/url"

// WithParameter adds a server setting to a connection URL, or replaces it.
func WithParameter(dsn, name, value string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String(), nil
}
