package web

// route is a page or an action, and the permission that it needs.
type route struct {
	method, path string
	need         Permission
	page         func(*request) error
}

// lost is the route of a path that no page has.
var lost = route{need: View, page: notFound}

// routes are all pages and actions.
var routes = []route{
	{"GET", "/{$}", View, overview},
	{"GET", "/jobs", View, jobs},
	{"GET", "/jobs/{id}", View, job},
	{"GET", "/jobs/{id}/payload", View | Payload, payload},
	{"GET", "/queues", View, queues},
	{"GET", "/queues/{queue}", View, queuePage},
	{"GET", "/kinds", View, kinds},
	{"GET", "/kinds/{kind}", View, kindPage},
	{"GET", "/schedules", View, schedules},
	{"GET", "/workers", View, workers},
	{"GET", "/health", View, health},
	{"GET", "/audit", View, audit},
	{"GET", "/bulk", View | Operate | Bulk, bulkPreview},
	{"GET", "/assets/{name}", View, asset},

	{"POST", "/read", View, readNow},
	{"POST", "/jobs/{id}/redrive", View | Operate, redriveJob},
	{"POST", "/jobs/{id}/cancel", View | Operate, cancelJob},
	{"POST", "/jobs/{id}/run", View | Operate, runJob},
	{"POST", "/jobs/{id}/delete", View | Edit, deleteJob},
	{"POST", "/queues/{queue}/pause", View | Operate, pauseQueue},
	{"POST", "/queues/{queue}/limits", View | Edit, setLimits},
	{"POST", "/kinds/{kind}/pause", View | Operate, pauseKind},
	{"POST", "/schedules/{schedule}/pause", View | Operate, pauseSchedule},
	{"POST", "/bulk", View | Operate | Bulk, bulk},
}
