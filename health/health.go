// Package health has HTTP handlers for the probes of Kubernetes, load balancers and monitors:
//
//	mux.Handle("/live", health.Live())
//	mux.Handle("/ready", health.Ready(q))
//
// They answer 200 or 503 with a line of text. The text never contains an error of the database,
// because probes are often open to everybody: the errors are in the log.
package health

import (
	"fmt"
	"net/http"

	"github.com/errandhq/errand/queue"
)

// Live returns a handler that answers 200 as long as the process serves HTTP. It asks no database:
// a process that is killed because its database is down does not mend it.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mayAnswer(w, r) {
			answer(w, http.StatusOK, "live")
		}
	})
}

// Ready returns a [Readiness] of q and these workers, with the defaults of its other fields.
func Ready(q queue.Enqueuer, workers ...*Watched) *Readiness {
	return &Readiness{Queue: q, Workers: workers}
}

// mayAnswer reports whether the request's method is one of a probe, and refuses it otherwise.
func mayAnswer(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "use GET", http.StatusMethodNotAllowed)
	return false
}

func answer(w http.ResponseWriter, code int, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
