package web

import (
	"net/url"
	"strings"
)

// readNow has everything read again for which the load allows it, and sends the browser back to the
// page that has the button.
func readNow(q *request) error {
	page, err := url.Parse(q.PostFormValue("page"))
	if err != nil || page.Scheme != "" || page.Host != "" || !isClean("/"+page.EscapedPath()) {
		return errNotFound
	}
	n := "0"
	if q.h.load.mayHurry() {
		q.h.actions.Add(1)
		n = "1"
	}
	query := page.Query()
	query.Set("did", "read")
	query.Set("n", n)
	q.redirect(page.EscapedPath(), query)
	return nil
}

// pageToRead returns the address of the page, relative to the root, without what the last action
// came to.
func (q *request) pageToRead() string {
	query := q.URL.Query()
	query.Del("did")
	query.Del("n")
	return strings.TrimPrefix(q.URL.EscapedPath(), "/") + strings.TrimSuffix("?"+query.Encode(), "?")
}
