// Package web is a dashboard for the jobs of a queue: an [http.Handler] that an application mounts
// beside its own pages, at any prefix.
//
//	dashboard, err := web.New(q, web.Options{Authorize: func(r *http.Request) web.Access {
//		user := userOf(r) // the application's own login
//		return web.Access{Actor: user.Name, May: web.Operator}
//	}})
//	http.Handle("/errand/", http.StripPrefix("/errand", dashboard))
//
// Pages are rendered on the server and can be read and used without JavaScript. A page shows what
// the backend's capabilities tell: a backend without a [driver.Scheduler] has no page of schedules.
//
// Somebody who watches costs the database little: all sessions share what the handler has read, it
// reads again after two seconds at the earliest, and only while a page is open. Readings that take
// long share a hundredth of the time. Where a reading fails, pages show the last one and its age.
package web
