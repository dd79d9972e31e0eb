package gateway

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/wire"
)

// route is a path of the API. Its method is POST if it has a request, and otherwise GET.
type route struct {
	path, summary string
	need          Operation // 0: any client that is known may use it
	isOpen        bool      // anybody may use it
	serve         func(*request) (answer any, err error)
	// request is an example of the body that is a good request, or nil without a body. ok is an empty
	// answer. openapi.json has the schemas of their types.
	request, ok any
	parameters  []string // of openapi.json, beside those in the path
	also        []int    // what it may answer beside the statuses of all routes
}

func (r route) method() string {
	if r.request == nil {
		return http.MethodGet
	}
	return http.MethodPost
}

// credit returns how far a request may go beyond the rate of requests.
func (r route) credit() time.Duration {
	if r.need == Extend || r.need == Settle {
		return heldCredit
	}
	return 0
}

const notSupported = http.StatusNotImplemented // the gateway's backend lacks a capability

// routes are all routes of the API.
var routes = slices.Concat([]route{
	{
		path: "/v1/enqueue", summary: "Write jobs", need: Enqueue, serve: (*request).enqueue,
		request: wire.EnqueueRequest{Jobs: []wire.Job{{Queue: "q", Kind: "k"}}}, ok: wire.EnqueueAnswer{},
		parameters: []string{"Idempotency-Key", wire.HeaderGateway}, also: []int{http.StatusConflict, http.StatusMisdirectedRequest},
	},
	{
		path: "/v1/claim", summary: "Claim due jobs, and wait for them", need: Claim, serve: (*request).claim,
		request: wire.ClaimRequest{Queues: []string{"q"}, Limit: 1, Worker: "w"}, ok: wire.ClaimAnswer{},
	},
	{
		path: "/v1/sleep", summary: "Announce that a worker waits", need: Claim, serve: (*request).sleep,
		request: wire.SleepRequest{Queues: []string{"q"}, Worker: "w"}, ok: wire.SleepAnswer{},
	},
	{
		path: "/v1/wait", summary: "Wait until there may be jobs", need: Claim, serve: (*request).wait,
		request: wire.WaitRequest{Queues: []string{"q"}, Worker: "w", Wait: time.Nanosecond}, ok: wire.WaitAnswer{}, also: []int{notSupported},
	},
	{
		path: "/v1/extend", summary: "Extend leases", need: Extend, serve: (*request).extend,
		request: wire.ExtendRequest{Jobs: []wire.Held{{ID: 1, Fence: 1, Worker: "w"}}}, ok: wire.ExtendAnswer{},
	},
	{
		path: "/v1/settle", summary: "Record outcomes", need: Settle, serve: (*request).settle,
		request: wire.SettleRequest{Outcomes: []wire.Outcome{{ID: 1, Fence: 1, Worker: "w", Action: "done"}}}, ok: wire.SettleAnswer{},
	},
	{
		path: "/v1/progress", summary: "Record progress", need: Settle, serve: (*request).progress, ok: wire.ProgressAnswer{}, also: []int{notSupported},
		request: wire.ProgressRequest{Progress: []wire.Progress{{ID: 1, Fence: 1, Worker: "w", Value: []byte("1")}}},
	},
	{
		path: "/v1/cancel", summary: "Cancel jobs", need: Cancel, serve: (*request).cancel,
		request: wire.Selection{IDs: []int64{1}, Queue: "q"}, ok: wire.CancelAnswer{}, also: []int{notSupported},
	},
	{
		path: "/v1/report", summary: "Report a worker, each 10 s", need: Claim, serve: (*request).report,
		request: wire.ReportRequest{Name: "w", Queues: []string{"q"}}, ok: wire.ReportAnswer{}, also: []int{notSupported},
	},
	{
		path: "/v1/deaths", summary: "Learn which jobs died by a crash", need: Claim, serve: (*request).tellDeaths,
		request: wire.DeathsRequest{Queues: []string{"q"}}, ok: wire.DeathsAnswer{},
	},
	{path: "/v1/check", summary: "Ask whether the gateway and its database answer", serve: (*request).check, ok: wire.CheckAnswer{}},
	{path: "/openapi.json", summary: "Read this description", isOpen: true, serve: (*request).openAPI},
}, reads)

// none is the request of a route without a body.
type none struct{}

// read returns a route that reads with a capability of the backend, within the time of a call. call
// leaves out what the client may not see. example is a good request.
func read[C, In, Out any](path, summary string, example In, call func(ctx context.Context, q *request, c C, in In) (Out, error)) route {
	r := route{path: path, summary: summary, need: Read, request: example, also: []int{notSupported}}
	if reflect.TypeFor[In]() == reflect.TypeFor[none]() {
		r.request = nil
	}
	var out Out
	r.ok = out
	r.serve = func(q *request) (any, error) {
		c, err := has[C](q.h.queue, reflect.TypeFor[C]().Name())
		if err != nil {
			return nil, err
		}
		var in In
		if r.request != nil {
			if err := q.read(&in); err != nil {
				return nil, err
			}
		}
		ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
		defer cancel()
		return call(ctx, q, c, in)
	}
	return r
}

// visible returns those of a list that are of queues that the client may use. It is not nil.
func visible[T any](q *request, all []T, queueOf func(T) string) []T {
	return append([]T{}, slices.DeleteFunc(all, func(v T) bool { return !q.access.mayUse(queueOf(v)) })...)
}
