// Package browser visits errand's dashboard over HTTP as people with browsers do: sessions that
// walk over its pages and refresh each one, and an action on many jobs, form by form.
package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// browser is what one person's browser does. It follows no redirects.
type browser struct {
	root   *url.URL // of the dashboard; its path ends with a slash
	client *http.Client
}

func newBrowser(root string) (*browser, error) {
	u, err := url.Parse(root)
	if err != nil {
		return nil, err
	}
	return &browser{u, &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 2},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}}, nil
}

// answer is what the dashboard has answered.
type answer struct {
	status int
	etag   string
	body   string
	took   time.Duration // until the end of the body
}

// get asks for a page. path is relative to the dashboard's root. If the page still has the etag,
// the answer has no body.
func (b *browser) get(ctx context.Context, path, etag string) (answer, error) {
	request, err := b.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return answer{}, err
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	return b.do(request)
}

// post sends a form.
func (b *browser) post(ctx context.Context, path string, fields url.Values) (answer, error) {
	request, err := b.request(ctx, http.MethodPost, path, strings.NewReader(fields.Encode()))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(request)
}

func (b *browser) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	u, err := b.root.Parse(path)
	if err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, method, u.String(), body)
}

// do returns the answer. One that is neither the page nor "not modified" is an error.
func (b *browser) do(request *http.Request) (a answer, err error) {
	from := time.Now()
	response, err := b.client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a = answer{response.StatusCode, response.Header.Get("ETag"), string(body), time.Since(from)}
	if a.status != http.StatusOK && a.status != http.StatusNotModified {
		return a, fmt.Errorf("%s %s: %s", request.Method, request.URL.Path, response.Status)
	}
	return a, nil
}

func (b *browser) close() { b.client.CloseIdleConnections() }
