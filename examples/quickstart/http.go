package main

import (
	"net"
	"net/http"
)

// serve starts a server on a free port of this machine; closing it ends it.
func serve(h http.Handler) (s *http.Server, url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s = &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }() // returns when the server is closed
	return s, "http://" + l.Addr().String(), nil
}

// newClient returns a client that keeps as many connections as are used at once;
// the default is two.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
}
