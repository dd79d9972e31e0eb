package main

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"html/template"
	"net/http"
	"sync"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// password is everybody's password. A real shop has a real login.
const password = "tea"

// users are the people who may log in, and what they may do with jobs.
var users = map[string]web.Permission{
	"ann": web.Admin,
	"bob": web.Viewer,
}

// sessionCookie is the shop's own cookie. The dashboard has none.
const sessionCookie = "shop-session"

// site is the shop's website: a home page, a login, and the dashboard.
type site struct {
	*http.ServeMux
	dashboard *web.Handler

	mu       sync.Mutex
	sessions map[string]string // the user's name, by the value of the cookie
}

// newSite returns the website, with the dashboard of q beneath /errand/.
func newSite(q queue.Queue) (*site, error) {
	s := &site{ServeMux: http.NewServeMux(), sessions: make(map[string]string)}
	var err error
	s.dashboard, err = web.New(q, web.Options{Authorize: s.access})
	if err != nil {
		return nil, err
	}
	s.Handle("/errand/", s.needLogin(http.StripPrefix("/errand", s.dashboard)))
	s.HandleFunc("GET /{$}", s.home)
	s.Handle("POST /login", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.login)))
	return s, nil
}

// user returns who has logged in, or "".
func (s *site) user(r *http.Request) string {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[cookie.Value]
}

// access says what the user may do on the dashboard.
func (s *site) access(r *http.Request) web.Access {
	name := s.user(r)
	return web.Access{Actor: name, May: users[name]}
}

// needLogin sends people who have not logged in to the home page.
func (s *site) needLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.user(r) == "" {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// login begins a session.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("name")
	if users[name] == 0 || subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte(password)) == 0 {
		http.Error(w, "wrong name or password", http.StatusForbidden)
		return
	}
	token := rand.Text()
	s.mu.Lock()
	s.sessions[token] = name
	s.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/errand/", http.StatusSeeOther)
}

var homePage = template.Must(template.New("home").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>The shop</title>
<h1>The shop</h1>
{{if .}}<p>You are {{.}}. <a href="/errand/">The jobs of the shop</a></p>{{else}}
<form method="post" action="/login">
<p><label>Name <input name="name" autocomplete="username" required></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
<button>Log in</button>
</form>{{end}}
</html>`))

// home shows the login, or who has logged in.
func (s *site) home(w http.ResponseWriter, r *http.Request) {
	if err := homePage.Execute(w, s.user(r)); err != nil {
		fmt.Println("dashboard: home page:", err)
	}
}
