package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// user is who has logged in to the application.
type user struct {
	Name     string
	IsOnCall bool
}

// userOf stands for the application's own login.
func userOf(*http.Request) *user { return &user{Name: "ann", IsOnCall: true} }

// access says what the users of the application may do with jobs.
func access(r *http.Request) web.Access {
	u := userOf(r)
	switch {
	case u == nil:
		return web.Access{} // may not see anything
	case u.IsOnCall:
		return web.Access{Actor: u.Name, May: web.Operator}
	}
	return web.Access{Actor: u.Name, May: web.Viewer}
}

// mount adds the dashboard to the application's pages.
func mount(mux *http.ServeMux, q queue.Enqueuer) error {
	dashboard, err := web.New(q, web.Options{Authorize: access})
	if err != nil {
		return err
	}
	mux.Handle("/errand/", http.StripPrefix("/errand", dashboard))
	return nil
}

func Example() {
	q := memory.New(memory.Options{})
	mux := http.NewServeMux()
	if err := mount(mux, q); err != nil {
		fmt.Println(err)
		return
	}
	err := q.Enqueue(context.Background(), nil, &queue.Job{Kind: "email.welcome"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/errand/jobs/1", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
