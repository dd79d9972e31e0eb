package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// customersAtOnce is how many of them place orders at the same time.
const customersAtOnce = 16

// customers place orders through the API, and remember what they were told.
type customers struct {
	url    string
	client *http.Client

	mu        sync.Mutex
	committed []int64 // orders that were taken
	declined  []int64 // orders whose payment was declined
}

func newCustomers(shopURL string) *customers {
	return &customers{url: shopURL + "/orders", client: newClient()}
}

// placeAll returns when all orders have been placed, or after the first error.
func (c *customers) placeAll(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	orders := make(chan Order)
	var placing sync.WaitGroup
	for range customersAtOnce {
		placing.Go(func() {
			for o := range orders {
				if err := c.place(ctx, o); err != nil {
					fail(err)
				}
			}
		})
	}
	for n := 0; n < ordersToPlace && ctx.Err() == nil; n++ {
		orders <- newOrder(n)
	}
	close(orders)
	placing.Wait()
	return context.Cause(ctx)
}

// place places one order and takes note of the answer.
func (c *customers) place(ctx context.Context, o Order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var reply Reply
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return fmt.Errorf("order: %s: %w", resp.Status, err)
	}
	return c.note(resp.StatusCode, reply)
}

func (c *customers) note(status int, reply Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch status {
	case http.StatusCreated:
		c.committed = append(c.committed, reply.OrderID)
	case http.StatusPaymentRequired:
		c.declined = append(c.declined, reply.OrderID)
	default:
		return fmt.Errorf("order: status %d: %s", status, reply.Error)
	}
	return nil
}

// told lists the orders by what the customers were told of them, so far.
func (c *customers) told() (committed, declined []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.committed), slices.Clone(c.declined)
}

// newOrder makes up the order of that number.
func newOrder(n int) Order {
	names := []string{"Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Tony"}
	items := []string{"teapot", "umbrella", "bicycle bell", "atlas", "lamp"}
	o := Order{
		Customer: names[n%len(names)],
		Email:    fmt.Sprintf("customer-%d@example.com", n),
		Item:     items[n%len(items)],
		Cents:    int64(500 + n*37%9500),
		Card:     "4242 4242 4242 4242",
	}
	if n%declineEvery == declineEvery-1 {
		o.Card = declinedCard
	}
	return o
}
