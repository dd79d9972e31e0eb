package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// receiver is somebody else's server, to which the webhooks go. It has its
// troubles, and counts what it is sent.
type receiver struct {
	url  string
	http *http.Server

	// holding gets the name of the worker whose request is never answered.
	holding chan string

	mu        sync.Mutex
	requests  int
	delivered tally     // by order: how often its webhook was accepted
	accepted  int       // webhooks, repetitions included
	failed    int       // answered with status 500
	hungUp    int       // not answered, because it was down
	upAt      time.Time // when it is up again; zero before it has been down
}

func openReceiver() (*receiver, error) {
	r := &receiver{holding: make(chan string, 1), delivered: make(tally)}
	var err error
	r.http, r.url, err = serve(r)
	return r, err
}

func (r *receiver) close() { r.http.Close() }

// ServeHTTP accepts a webhook, or not.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var hook Webhook
	if err := json.NewDecoder(req.Body).Decode(&hook); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch r.take(hook.OrderID) {
	case fails:
		http.Error(w, "out of luck", http.StatusInternalServerError)
	case hangsUp:
		panic(http.ErrAbortHandler) // closes the connection without a word
	case holds:
		r.holding <- req.UserAgent()
		<-req.Context().Done() // the worker is dead, or the day is over
	}
}

// answer is what becomes of a request.
type answer int

const (
	accepts answer = iota
	fails
	hangsUp
	holds // accepts, but does not say so
)

// take decides about a request, and records it.
func (r *receiver) take(order int64) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	switch {
	case time.Now().Before(r.upAt):
		r.hungUp++
		return hangsUp
	case r.requests%failEvery == 0:
		r.failed++
		return fails
	}
	r.accepted++
	r.delivered[order]++
	if r.accepted >= downAfter && r.upAt.IsZero() {
		r.upAt = time.Now().Add(downFor)
	}
	if r.accepted == killAfter {
		return holds
	}
	return accepts
}

// got tells how often the receiver has accepted each order's webhook so far, and
// how many requests it did not accept.
func (r *receiver) got() (delivered tally, troubles int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.delivered), r.failed + r.hungUp
}

// String is for the progress line.
func (r *receiver) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := "up"
	if time.Now().Before(r.upAt) {
		state = "down"
	}
	return fmt.Sprintf("webhooks %d, failed %d  receiver is %s", r.accepted, r.failed+r.hungUp, state)
}
