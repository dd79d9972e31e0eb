package main

import (
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// receiver is the tenants' HTTP server. It takes 60 to 140 ms to answer.
type receiver struct {
	url    string
	server *http.Server
}

func openReceiver() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + listener.Addr().String()}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *receiver) close() { _ = r.server.Close() }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	select {
	case <-time.After(60*time.Millisecond + rand.N(80*time.Millisecond)):
		w.WriteHeader(http.StatusOK)
	case <-req.Context().Done(): // the job was cancelled
	}
}
