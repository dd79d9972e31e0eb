package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	oteltrace "go.opentelemetry.io/otel/trace"
)

// customer uses the shop over HTTP, as anyone would.
type customer struct {
	url    string
	client *http.Client
}

func newCustomer(url string) *customer {
	return &customer{url: url, client: &http.Client{Transport: &http.Transport{}}}
}

func (c *customer) leave() { c.client.CloseIdleConnections() }

// order places an order and returns the trace that it has begun.
func (c *customer) order(ctx context.Context) (id oteltrace.TraceID, err error) {
	resp, err := c.do(ctx, http.MethodPost, "/orders", `{"item": "lamp"}`)
	if err != nil {
		return id, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return id, fmt.Errorf("POST /orders: %s", resp.Status)
	}
	return oteltrace.TraceIDFromHex(resp.Header.Get("Trace-Id"))
}

func (c *customer) get(ctx context.Context, path string) (string, error) {
	resp, err := c.do(ctx, http.MethodGet, path, "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return string(text), err
}

func (c *customer) do(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return c.client.Do(req)
}

// countSeries counts the lines of an exposition that are not comments.
func countSeries(metrics string) (n int) {
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}
