package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// rules says which permission each route needs besides View. Each route must have one.
var rules = map[string]web.Permission{
	"GET /{$}":                         web.View,
	"GET /jobs":                        web.View,
	"GET /jobs/{id}":                   web.View,
	"GET /jobs/{id}/payload":           web.Payload,
	"GET /queues":                      web.View,
	"GET /queues/{queue}":              web.View,
	"GET /kinds":                       web.View,
	"GET /kinds/{kind}":                web.View,
	"GET /schedules":                   web.View,
	"GET /workers":                     web.View,
	"GET /health":                      web.View,
	"GET /audit":                       web.View,
	"GET /bulk":                        web.Operate | web.Bulk,
	"GET /assets/{name}":               web.View,
	"POST /read":                       web.View,
	"POST /jobs/{id}/redrive":          web.Operate,
	"POST /jobs/{id}/cancel":           web.Operate,
	"POST /jobs/{id}/run":              web.Operate,
	"POST /jobs/{id}/delete":           web.Edit,
	"POST /queues/{queue}/pause":       web.Operate,
	"POST /queues/{queue}/limits":      web.Edit,
	"POST /kinds/{kind}/pause":         web.Operate,
	"POST /schedules/{schedule}/pause": web.Operate,
	"POST /bulk":                       web.Operate | web.Bulk,
}

// examplePath is a path of the route that exists.
var examplePath = strings.NewReplacer("{$}", "", "{id}", "1", "{queue}", "default", "{kind}", "a", "{schedule}", "s", "{name}", "errand.css")

// TestPermissions: with each set of permissions, each route with each method does what the table
// says. A route without a row fails.
func TestPermissions(t *testing.T) {
	for _, route := range web.Routes() {
		if rules[route] == 0 {
			t.Errorf("%s has no rule here", route)
		}
	}
	var granted web.Permission
	s := newSite(t, web.Options{Authorize: func(*http.Request) web.Access { return web.Access{Actor: "ann", May: granted} }})
	s.enqueue(&queue.Job{Kind: "a"})
	paths := make(map[string]map[string]web.Permission) // by path and method
	for route, need := range rules {
		if !slices.Contains(web.Routes(), route) {
			t.Errorf("there is no route %s", route)
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.TrimPrefix(examplePath.Replace(path), "/")
		if paths[path] == nil {
			paths[path] = make(map[string]web.Permission)
		}
		paths[path][method] = need | web.View
	}
	for granted = range 2 * web.Bulk {
		for path, needs := range paths {
			for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
				need, isThere := needs[method]
				got := s.do(method, path, "paused=x", map[string]string{"Sec-Fetch-Site": "same-origin"}).status
				isForbidden := got == http.StatusForbidden
				switch want := !granted.Has(web.View) || !granted.Has(need); {
				case isForbidden != want && isThere:
					t.Errorf("%s %s with %05b: %d", method, path, granted, got)
				case !isThere && got < 400:
					t.Errorf("%s %s with %05b: %d, though there is no such route", method, path, granted, got)
				}
			}
		}
	}
}

// TestReadOnly: whatever the person may do elsewhere, nothing can be changed.
func TestReadOnly(t *testing.T) {
	s := newSite(t, web.Options{ReadOnly: true})
	s.enqueue(&queue.Job{Kind: "a"})
	for route := range rules {
		method, path, _ := strings.Cut(route, " ")
		if method == "POST" && path != "/read" { // it changes nothing
			if a := s.post(strings.TrimPrefix(examplePath.Replace(path), "/"), "paused=true"); a.status != http.StatusForbidden {
				t.Errorf("%s: %d", route, a.status)
			}
		}
	}
	if page := s.want("jobs/1"); strings.Contains(page.body, `<form method="post"`) {
		t.Error("a page has a form that changes something")
	}
}

// TestForged: a form from a page of another origin changes nothing.
func TestForged(t *testing.T) {
	s := newSite(t, web.Options{TrustedOrigins: []string{"https://ops.example.com"}})
	for _, test := range []struct {
		headers map[string]string
		isTaken bool
	}{
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{map[string]string{"Origin": "https://evil.example"}, false},
		{map[string]string{"Origin": "null"}, false},
		{map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://ops.example.com.evil.example"}, false},
		{map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://ops.example.com"}, true},
		{map[string]string{"Sec-Fetch-Site": "same-origin"}, true},
		{map[string]string{"Sec-Fetch-Site": "none"}, true},
	} {
		s.enqueue(&queue.Job{Kind: "a"})
		jobs, _, err := s.q.Jobs(t.Context(), queue.Filter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		a := s.do("POST", fmt.Sprintf("jobs/%d/cancel", jobs[0].ID), "reason=x", test.headers)
		isTaken := s.status(jobs[0].ID) == queue.StatusCancelled
		if isTaken != test.isTaken || (a.status == http.StatusSeeOther) != test.isTaken {
			t.Errorf("%v: status %d, cancelled %t", test.headers, a.status, isTaken)
		}
	}
}

// TestHeaders: every answer has the headers that keep it safe, and sets no cookie.
func TestHeaders(t *testing.T) {
	s := newSite(t, web.Options{})
	s.enqueue(&queue.Job{Kind: "a"})
	answers := []answer{s.get("no-such-page"), s.get("jobs?attempts=x"), s.do("POST", "jobs/1/cancel", "", map[string]string{"Origin": "https://evil.example"}), s.post("jobs/1/cancel", "")}
	for route := range rules {
		method, path, _ := strings.Cut(route, " ")
		answers = append(answers, s.do(method, strings.TrimPrefix(examplePath.Replace(path), "/"), "", nil))
	}
	for _, a := range answers {
		for name, want := range map[string]string{
			"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Set-Cookie":                   "",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("status %d: %s: %q", a.status, name, got)
			}
		}
	}
}

// hostile are texts that do harm on a page that does not escape them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `javascript:alert(1)`, `{{.Root}}`,
	`</pre></bdi><svg onload=alert(1)>`, "\u202egnp.exe", "a\x1b[2Jb", "%3Cscript%3E", `\u003cscript>`, `../../evil`, "..", "~", "a/b?c#d", "&lt;b&gt;",
}

// TestHostileTexts: no stored text becomes markup, on any page, whatever the person may see.
func TestHostileTexts(t *testing.T) {
	var may web.Permission
	s := newSite(t, web.Options{Authorize: func(*http.Request) web.Access { return web.Access{Actor: hostile[0], May: may} }})
	pages := []string{"", "jobs", "queues", "kinds", "schedules"}
	for i, text := range hostile {
		name := regexp.MustCompile(`[^ -~]`).ReplaceAllString(text, "?")
		quoted, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		s.enqueue(&queue.Job{Kind: name, Queue: name, Group: text, Key: text, Payload: quoted, Headers: map[string]string{text: text}})
		fail(t, s.q, name, text)
		schedule := queue.Schedule{Name: name, Spec: "@daily", Job: &queue.Job{Kind: name}}
		if err := s.q.SetSchedules(t.Context(), nil, schedule); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(i + 1)
		pages = append(pages, "jobs/"+id, "jobs/"+id+"?values=1")
	}
	markup := regexp.MustCompile(`(?i)<script>|<img|<svg onload|onerror=alert\(1\)>|<b>|href="javascript|` + "\u202e|\x1b")
	for _, may = range []web.Permission{web.Viewer, web.Admin} {
		for _, page := range pages {
			if page == "schedules" && may == web.Viewer {
				continue
			}
			a := s.want(page)
			if found := markup.FindString(a.body); found != "" {
				t.Errorf("%s has %q", page, found)
			}
		}
	}
	for _, link := range regexp.MustCompile(`href="\./(queues/[^"]+)"`).FindAllStringSubmatch(s.get("queues").body, -1) {
		s.want(strings.ReplaceAll(link[1], "&amp;", "&"), "Pause the queue")
	}
}

// TestRedacted: without the permission nobody sees, or finds, what is in a job.
func TestRedacted(t *testing.T) {
	s := newSite(t, web.Options{Authorize: web.Everyone(web.Operator)})
	s.enqueue(&queue.Job{Kind: "a", Payload: json.RawMessage(`{"card":"4111-secret","big":12345678901234567890}`), Headers: map[string]string{"token": "secret-header"}})
	fail(t, s.q, queue.DefaultQueue, `card "4111-secret" of ann@secret.example (id 4711-secret) refused`)
	for _, page := range []string{"", "jobs", "jobs/1", "jobs/1?values=1", "jobs?status=dead", "bulk?action=redrive&status=dead"} {
		if a := s.want(page); strings.Contains(a.body, "secret") || strings.Contains(a.body, "Show the values") {
			t.Errorf("%s shows a value:\n%s", page, a.body)
		}
	}
	s.want("jobs/1", "&#34;card&#34;: string", "&#34;big&#34;: number", "13 bytes", "card … of … (id … refused")
	if a := s.get("jobs/1/payload"); a.status != http.StatusForbidden {
		t.Errorf("the payload: %d", a.status)
	}

	all := siteOf(t, s.q, web.Options{})
	all.want("jobs/1?values=1", "4111-secret", "12345678901234567890", "secret-header")
	if a := all.get("jobs/1/payload"); !strings.Contains(a.body, "4111-secret") || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the payload: %d %q", a.status, a.body)
	}
	if log := all.log.String(); strings.Count(log, "level=INFO") != 2 || strings.Contains(log, "4111") {
		t.Errorf("the log does not say who has seen values:\n%s", log)
	}
	mine := siteOf(t, s.q, web.Options{Authorize: web.Everyone(web.Viewer), Redact: func(v web.Value) string { return "no " + string(v.Field) }})
	mine.want("jobs/1", "no payload", "no header", "no error")
}

// TestPrefixes: the dashboard works at any prefix, however it is mounted, without an option.
func TestPrefixes(t *testing.T) {
	for name, test := range map[string]struct{ pattern, strip, prefix string }{
		"root":          {"/", "", "/"},
		"prefix":        {"/errand/", "/errand", "/errand/"},
		"prefix, slash": {"/errand/", "/errand/", "/errand/"},
		"deep":          {"/admin/tools/errand/", "/admin/tools/errand", "/admin/tools/errand/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, web.Options{})
			s.enqueue(&queue.Job{Kind: "a", Queue: "x/y"})
			mux := http.NewServeMux()
			mux.Handle(test.pattern, http.StripPrefix(test.strip, s.h))
			server := httptest.NewServer(mux)
			defer server.Close()
			s.url = server.URL + test.prefix
			crawl(t, s)
			a := s.post("jobs/1/cancel", "")
			if got := a.header.Get("Location"); got != "../../jobs/1?did=jobs.cancel&n=1" || s.status(1) != queue.StatusCancelled {
				t.Errorf("cancel leads to %q", got)
			}
		})
	}
}

// crawl follows every link from the overview.
func crawl(t *testing.T, s *site) {
	t.Helper()
	link := regexp.MustCompile(`(?:href|src|action)="([^"#]*)"`)
	seen := map[string]bool{}
	for todo := []string{""}; len(todo) > 0; {
		page := todo[0]
		todo = todo[1:]
		if seen[page] {
			continue
		}
		seen[page] = true
		a := s.want(page)
		base, err := http.NewRequestWithContext(t.Context(), "GET", s.url+page, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(a.body, -1) {
			to, err := base.URL.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			rest, isInside := strings.CutPrefix(to.String(), s.url)
			if !isInside {
				t.Errorf("%s links to %s", page, to)
			} else if strings.Contains(m[0], "href") || strings.Contains(m[0], "src") {
				todo = append(todo, rest)
			}
		}
	}
	if len(seen) < 12 {
		t.Errorf("found only %d pages", len(seen))
	}
}

// TestWithoutSlash: the prefix alone leads to the prefix with a slash.
func TestWithoutSlash(t *testing.T) {
	s := newSite(t, web.Options{})
	w := httptest.NewRecorder()
	http.StripPrefix("/admin/errand", s.h).ServeHTTP(w, httptest.NewRequest("GET", "/admin/errand", nil))
	if got := w.Header().Get("Location"); w.Code != http.StatusPermanentRedirect || got != "errand/" {
		t.Errorf("%d to %q", w.Code, got)
	}
}

// TestUncleanPaths: a path with empty segments or dots leads nowhere. [http.ServeMux] would
// redirect to a path without the prefix.
func TestUncleanPaths(t *testing.T) {
	s := newSite(t, web.Options{})
	for _, path := range []string{"//jobs", "/./jobs", "/x/../jobs", "/jobs//", "//", "/..", "//evil.test/jobs"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = "/errand" + path
		http.StripPrefix("/errand", s.h).ServeHTTP(w, r)
		if got := w.Header().Get("Location"); w.Code != http.StatusNotFound || got != "" {
			t.Errorf("%s: %d to %q", path, w.Code, got)
		}
	}
}
