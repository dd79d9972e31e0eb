package gateway

import (
	"net/http"
	"time"

	"github.com/errandhq/errand/internal/wire"
)

// route is one method of one path.
type route struct {
	method, path string
	need         Operation // 0: any client that is known may use it
	isOpen       bool      // anybody may use it
	serve        func(*request) (answer any, err error)
	// request and ok are the types of the bodies, which openapi.json describes. request is nil without
	// a body.
	request, ok any
}

// credit returns how far a request may go beyond the rate of requests.
func (r route) credit() time.Duration {
	if r.need == Extend || r.need == Settle {
		return heldCredit
	}
	return 0
}

// routes are all routes of the API.
var routes = []route{
	{http.MethodPost, "/v1/enqueue", Enqueue, false, (*request).enqueue, wire.EnqueueRequest{}, wire.EnqueueAnswer{}},
	{http.MethodPost, "/v1/claim", Claim, false, (*request).claim, wire.ClaimRequest{}, wire.ClaimAnswer{}},
	{http.MethodPost, "/v1/sleep", Claim, false, (*request).sleep, wire.SleepRequest{}, wire.SleepAnswer{}},
	{http.MethodPost, "/v1/wait", Claim, false, (*request).wait, wire.WaitRequest{}, wire.WaitAnswer{}},
	{http.MethodPost, "/v1/extend", Extend, false, (*request).extend, wire.ExtendRequest{}, wire.ExtendAnswer{}},
	{http.MethodPost, "/v1/settle", Settle, false, (*request).settle, wire.SettleRequest{}, wire.SettleAnswer{}},
	{http.MethodPost, "/v1/progress", Settle, false, (*request).progress, wire.ProgressRequest{}, wire.ProgressAnswer{}},
	{http.MethodGet, "/v1/jobs", Read, false, (*request).jobs, nil, wire.JobsAnswer{}},
	{http.MethodGet, "/v1/jobs/{id}", Read, false, (*request).job, nil, wire.JobAnswer{}},
	{http.MethodGet, "/v1/jobs/{id}/result", Read, false, (*request).result, nil, wire.ResultAnswer{}},
	{http.MethodGet, "/v1/counts", Read, false, (*request).counts, nil, wire.CountsAnswer{}},
	{http.MethodGet, "/v1/backlogs", Read, false, (*request).backlogs, nil, wire.BacklogsAnswer{}},
	{http.MethodGet, "/v1/rules", Read, false, (*request).rules, nil, wire.RulesAnswer{}},
	{http.MethodPost, "/v1/cancel", Cancel, false, (*request).cancel, wire.CancelRequest{}, wire.CancelAnswer{}},
	{http.MethodPost, "/v1/report", Claim, false, (*request).report, wire.ReportRequest{}, wire.ReportAnswer{}},
	{http.MethodPost, "/v1/deaths", Claim, false, (*request).tellDeaths, wire.DeathsRequest{}, wire.DeathsAnswer{}},
	{http.MethodGet, "/v1/workers", Read, false, (*request).workers, nil, wire.WorkersAnswer{}},
	{http.MethodPost, "/v1/runs", Read, false, (*request).runs, wire.RunsRequest{}, wire.RunsAnswer{}},
	{http.MethodGet, "/v1/check", 0, false, (*request).check, nil, wire.CheckAnswer{}},
	{http.MethodGet, "/openapi.json", 0, true, (*request).openAPI, nil, nil},
}
