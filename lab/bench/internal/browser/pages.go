package browser

import (
	"fmt"
	"html"
	"regexp"
)

// Page is a page of the dashboard, or one of its forms that costs the database differently.
type Page struct {
	Name string
	path func(*session) string // relative to the dashboard's root; "" if no link leads there now
}

// walk is all pages, in the order of a session's visits. Links are those of the list before.
var walk = []Page{
	at("overview", "./"),
	at("jobs", "jobs"),
	{"jobs, next page", nextPage},
	{"job", oneJob},
	at("jobs, dead", "jobs?status=dead"),
	{"jobs, dead, next page", nextPage},
	{"job, dead", oneJob},
	at("jobs, dead, of a queue", "jobs?status=dead&queue=queue-07"),
	at("jobs, pending", "jobs?status=pending"),
	{"job, pending", oneJob},
	at("jobs, running", "jobs?status=running"),
	at("jobs, completed", "jobs?status=completed"),
	at("jobs of a rare kind", "jobs?kind=rare"),
	at("queues", "queues"),
	{"queue", func(s *session) string { return fmt.Sprintf("queues/queue-%02d", s.random.IntN(49)) }},
	at("kinds", "kinds"),
	at("schedules", "schedules"),
	at("workers", "workers"),
	at("health", "health"),
	at("audit", "audit"),
	at("bulk", "bulk?action=redrive&status=dead&queue=queue-07"),
}

func at(name, path string) Page { return Page{name, func(*session) string { return path }} }

// Pages returns the names of all pages.
func Pages() (names []string) {
	for _, p := range walk {
		names = append(names, p.Name)
	}
	return names
}

var (
	nextLink = regexp.MustCompile(`<a href="[./]*(jobs\?[^"]*)" rel="next">`)
	jobLink  = regexp.MustCompile(`<a class="kind" href="[./]*(jobs/\d+)">`)
)

// nextPage returns the link to older jobs.
func nextPage(s *session) string {
	if m := nextLink.FindStringSubmatch(s.body); m != nil {
		return html.UnescapeString(m[1])
	}
	return ""
}

// oneJob returns the link to one of the jobs.
func oneJob(s *session) string {
	all := jobLink.FindAllStringSubmatch(s.body, -1)
	if len(all) == 0 {
		return ""
	}
	return all[s.random.IntN(len(all))][1]
}
