package main

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/queue"
)

// server is a gateway and the server that it is mounted in.
type server struct {
	url     string
	gateway *gateway.Handler
	http    *http.Server
	once    sync.Once
}

// startGateway serves the queue to workers that have the token.
func startGateway(q queue.Queue, token string) (*server, error) {
	workers := gateway.Token{Secret: token, Access: gateway.Access{
		Name: "workers", Queues: []string{gateway.AllQueues}, May: gateway.Work,
	}}
	g, err := gateway.New(q, gateway.Options{Tokens: []gateway.Token{workers}})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		g.Close()
		return nil, err
	}
	s := &server{
		url:     "http://" + listener.Addr().String(),
		gateway: g,
		http:    &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.http.Serve(listener) }() // until Close: then it returns ErrServerClosed
	return s, nil
}

// end ends the gateway as in a deploy: clients that wait for jobs are told to go elsewhere, and
// clients that settle are still served. Later calls do nothing.
func (s *server) end() {
	s.once.Do(func() {
		s.gateway.Drain()
		time.Sleep(500 * time.Millisecond)
		s.http.Close()
		s.gateway.Close()
	})
}
