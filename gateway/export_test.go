package gateway

import "strings"

// GoodRequests returns a good request for each route that needs a token: its method and path, and
// its body or nil.
func GoodRequests() map[string]any {
	good := make(map[string]any)
	for _, r := range routes {
		path := strings.Replace(r.path, "{id}", "1", 1)
		if path == "/v1/jobs" {
			path += "?queue=q"
		}
		if !r.isOpen {
			good[r.method()+" "+path] = r.request
		}
	}
	return good
}
