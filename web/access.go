package web

import "net/http"

// Permission is a set of things that a person may do.
type Permission uint8

// The permissions. All of them need View as well.
const (
	View    Permission = 1 << iota // see all pages, but not what is in payloads
	Payload                        // see payloads, headers, outputs and whole error texts
	Operate                        // cancel, retry and run one job; pause and resume
	Edit                           // change limits; delete a job
	Bulk                           // act on many jobs at once: with Operate cancel, retry and run, with Edit as well delete
)

// Sets that are often given.
const (
	Viewer   = View
	Operator = View | Operate | Bulk
	Admin    = View | Payload | Operate | Edit | Bulk
)

// Has reports whether p has all of what.
func (p Permission) Has(what Permission) bool { return p&what == what }

// Access says who sends a request, and what that person may do. The zero value may do nothing.
type Access struct {
	// Actor is the person's name, for the log and the audit log. "" becomes "unknown".
	Actor string
	May   Permission
}

// Everyone is an [Options].Authorize that gives everybody who can reach the page the same
// permissions. Use it only where something else asks who they are.
func Everyone(may Permission) func(*http.Request) Access {
	return func(*http.Request) Access { return Access{Actor: "everyone", May: may} }
}

// access returns who sends the request, within what the options allow.
func (h *Handler) access(r *http.Request) Access {
	a := h.options.Authorize(r)
	if h.options.ReadOnly {
		a.May &= View | Payload
	}
	if a.Actor == "" {
		a.Actor = "unknown"
	}
	return a
}
