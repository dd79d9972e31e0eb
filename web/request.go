package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// request is one call of a page or an action.
type request struct {
	*http.Request
	h      *Handler
	w      http.ResponseWriter
	access Access
	root   string // the dashboard's root, relative to the page: "./" or "../../"
	now    time.Time
}

// policy is the Content-Security-Policy: nothing but the dashboard's own files, no inline code and
// no inline styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// setHeaders sets the headers of every answer.
func setHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("X-Robots-Tag", "noindex")
	header.Set("Cache-Control", "no-store")
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if r.URL.Path == "" && redirectToSlash(w, r) {
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") { // StripPrefix("/errand/", h)
		r = withPath(r, "/"+r.URL.Path)
	}
	if !isClean(r.URL.EscapedPath()) {
		h.serve(lost).ServeHTTP(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// isClean reports whether an escaped path has no empty segments and no dots. For others
// [http.ServeMux] redirects to a path without the prefix that StripPrefix has removed.
func isClean(escaped string) bool {
	clean := path.Clean(escaped)
	return escaped == clean || clean != "/" && escaped == clean+"/"
}

// withPath returns r with a different path.
func withPath(r *http.Request, path string) *http.Request {
	clone := *r
	clone.URL = new(url.URL)
	*clone.URL = *r.URL
	if clone.URL.RawPath != "" {
		clone.URL.RawPath = "/" + clone.URL.RawPath
	}
	clone.URL.Path = path
	return &clone
}

// redirectToSlash sends the browser from the prefix alone to the prefix with a slash, from which
// links are relative. It reports false if the browser is there already.
func redirectToSlash(w http.ResponseWriter, r *http.Request) bool {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if asked == "" || strings.HasSuffix(asked, "/") {
		return false
	}
	w.Header().Set("Location", path.Base(asked)+"/")
	w.WriteHeader(http.StatusPermanentRedirect)
	return true
}

// serve returns the handler of a route.
func (h *Handler) serve(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(withPatience(r.Context(), patienceOf(r)))
		q := &request{Request: r, h: h, w: w, access: h.access(r), root: rootFrom(r.URL), now: time.Now()}
		switch {
		case !q.access.May.Has(View):
			q.fail(http.StatusForbidden, "You may not see this page.")
			return
		case !q.access.May.Has(route.need):
			q.fail(http.StatusForbidden, "You may not do this.")
			return
		}
		if err := h.csrf.Check(r); err != nil {
			q.fail(http.StatusForbidden, "The form was sent from a page of a different origin, so nothing was changed. "+
				"If a proxy changes the Host of requests, name the origin in TrustedOrigins.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := route.page(q); err != nil {
			q.failWith(err)
		}
	})
}

// patienceOf returns how long a page waits for what is read anew.
func patienceOf(r *http.Request) time.Duration {
	if r.URL.Query().Has("did") { // see noticeOf
		return patienceAfter
	}
	return patience
}

// rootFrom returns the way from a page to the dashboard's root.
func rootFrom(u *url.URL) string {
	depth := strings.Count(u.EscapedPath(), "/") - 1
	if depth <= 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

// The errors of a page, or a job, that does not exist.
var (
	errNotFound = errors.New("web: not found")
	errNoJob    = errors.New("web: no such job")
)

func notFound(*request) error { return errNotFound }

// failWith answers with what a person can know of an error.
func (q *request) failWith(err error) {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, errNotFound):
		q.fail(http.StatusNotFound, "There is no such page.")
		return
	case errors.Is(err, errNoJob):
		q.fail(http.StatusNotFound, "There is no such job.")
		return
	case errors.As(err, &tooLong):
		q.fail(http.StatusRequestEntityTooLarge, "The form is too long.")
		return
	case errors.Is(err, context.Canceled) && q.Context().Err() != nil:
		return // the browser has gone away
	}
	text, isLogged := explainError(err)
	status := http.StatusBadRequest
	if isLogged {
		status = http.StatusServiceUnavailable
		if lacksRight(err) {
			status = http.StatusForbidden
		}
		q.logFailure(err)
	}
	q.fail(status, text)
}

// logFailure logs why a page could not be shown.
func (q *request) logFailure(err error) {
	q.h.options.Logger.Error("errand: dashboard: request failed", "path", q.URL.Path, "error", err)
}

// redirect sends the browser to a page of the dashboard after an action. It writes Location itself:
// http.Redirect would make it absolute, without the prefix that StripPrefix has removed.
func (q *request) redirect(page string, query url.Values) {
	if len(query) > 0 {
		page += "?" + query.Encode()
	}
	q.w.Header().Set("Location", q.root+page)
	q.w.WriteHeader(http.StatusSeeOther)
}

// may reports whether the person may do what.
func (q *request) may(what Permission) bool { return q.access.May.Has(what) }
