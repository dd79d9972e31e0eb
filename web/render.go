package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"reflect"
	"strings"
	"time"
)

//go:embed templates assets
var files embed.FS

// layouts are the templates by the name of their page.
var layouts = parseTemplates()

func parseTemplates() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	entries, err := files.ReadDir("templates/pages")
	if err != nil {
		panic(err) // the folder is compiled into the program
	}
	all := make(map[string]*template.Template)
	for _, entry := range entries {
		t := template.Must(base.Clone())
		all[strings.TrimSuffix(entry.Name(), ".html")] = template.Must(t.ParseFS(files, "templates/pages/"+entry.Name()))
	}
	return all
}

// functions are what templates call.
var functions = template.FuncMap{
	"number":   func(n any) string { return number(reflect.ValueOf(n).Int()) },
	"plural":   func(n int, noun string) string { return plural(int64(n), noun) },
	"plain":    plain,
	"segment":  segment,
	"duration": duration,
	"when":     func(q *view, t time.Time) moment { return momentOf(q.Now, t) },
	"asset":    assetURL,
	"rows":     func(q *view, rows any) table { return table{q, q.Root, rows, false} },
	"ticks":    func(q *view, rows any) table { return table{q, q.Root, rows, true} },
	"upper":    upper,
	"lower":    strings.ToLower,
	"cut":      cut,
}

// view is what every template gets.
type view struct {
	Title  string
	Status int    // of the answer; 0 means 200
	Root   string // the way to the dashboard's root
	Nav    []navLink
	Notice string // what the last action came to
	Late   string // why the page shows old values; "" if it does not
	Awaits string // which values are being read; "" if all are known
	Page   string // the page's address, relative to the root
	Every  int    // the page refreshes itself so often, in seconds; 0: never
	May    may
	Now    time.Time
	Data   any

	ages []lateness // see Age
}

// table is what the templates of tables get.
type table struct {
	View  *view
	Root  string
	Rows  any
	Ticks bool // a person can tick rows
}

// navLink is a link of the navigation.
type navLink struct {
	Title, Page string
	IsHere      bool
}

// may is what the person may do, for templates.
type may struct{ Payload, Operate, Edit bool }

// refreshEvery is how often a page refreshes itself, in seconds. One that awaits values does so
// after awaitEvery.
const (
	refreshEvery = 3
	awaitEvery   = 1
)

// rest ends the refreshes of the page as soon as it awaits nothing.
func (v *view) rest() {
	if v.Awaits == "" {
		v.Every = 0
	}
}

// IsSure reports whether the page has all values, so that none means that there is nothing.
func (v *view) IsSure() bool { return v.Late == "" && v.Awaits == "" }

// CanRead reports whether the page has values that can be read again.
func (v *view) CanRead() bool { return len(v.ages) > 0 }

// view returns what the template of a page gets.
func (q *request) view(title string, data any) *view {
	v := &view{
		Title: title, Root: q.root, Every: refreshEvery, Now: q.now, Data: data,
		Notice: noticeOf(q.URL.Query()),
		May:    may{q.may(Payload), q.may(Operate), q.may(Edit)},
		Page:   q.pageToRead(),
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	if first == "bulk" {
		first = "jobs"
	}
	for _, l := range []struct {
		title, page string
		isThere     bool
	}{
		{"Overview", "", true},
		{"Jobs", "jobs", true},
		{"Queues", "queues", true},
		{"Kinds", "kinds", true},
		{"Schedules", "schedules", q.h.source.scheduler != nil},
		{"Workers", "workers", q.h.source.fleet != nil},
		{"Health", "health", q.h.source.queue != nil},
		{"Audit", "audit", q.h.source.auditor != nil},
	} {
		if l.isThere {
			v.Nav = append(v.Nav, navLink{l.title, l.page, first == l.page})
		}
	}
	return v
}

// render answers with a page. The browser that has it already gets 304.
func (q *request) render(name string, v *view) error {
	var page bytes.Buffer
	if err := layouts[name].ExecuteTemplate(&page, "layout", v); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		q.w.WriteHeader(v.Status)
		fmt.Fprint(q.w, page.String())
		return nil
	}
	sum := sha256.Sum256(page.Bytes())
	etag := `"` + hex.EncodeToString(sum[:12]) + `"`
	q.w.Header().Set("ETag", etag)
	if q.Header.Get("If-None-Match") == etag {
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	fmt.Fprint(q.w, page.String())
	return nil
}

// fail answers with an error page.
func (q *request) fail(status int, text string) {
	v := q.view(http.StatusText(status), text)
	v.Every, v.Notice = 0, ""
	if !q.may(View) {
		v.Nav = nil
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var page bytes.Buffer
	if err := layouts["error"].ExecuteTemplate(&page, "layout", v); err != nil {
		q.h.options.Logger.Error("errand: dashboard: template failed", "error", err)
	}
	q.w.WriteHeader(status)
	fmt.Fprint(q.w, page.String())
}

// assetHashes are the first characters of the hashes of the files in assets/, by name. A changed
// file has a different address, so browsers may keep it.
var assetHashes = func() map[string]string {
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	hashes := make(map[string]string)
	for _, entry := range entries {
		content, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		hashes[entry.Name()] = hex.EncodeToString(sum[:6])
	}
	return hashes
}()

func assetURL(name string) string { return "assets/" + name + "?v=" + assetHashes[name] }

// contentTypes are those of the files in assets/.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// asset answers with a file of assets/.
func asset(q *request) error {
	name := q.PathValue("name")
	if assetHashes[name] == "" {
		return errNotFound
	}
	content, err := files.ReadFile("assets/" + name)
	if err != nil {
		return errNotFound
	}
	q.w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	if q.URL.Query().Get("v") == assetHashes[name] {
		q.w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	fmt.Fprint(q.w, string(content))
	return nil
}
