package browsertest

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// axe is axe-core 4.14.1, as npm has it. Its licence is beside it.
//
//go:embed axe/axe.min.js
var axe string

// violation is a finding of axe.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// runAxe runs axe's rules for WCAG 2.2 AA, and its best practices. It runs in the page, but not as
// a script of the page, so the Content-Security-Policy stays in force.
const runAxe = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
	.then(r => r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => ({html: n.html, failureSummary: n.failureSummary}))})))`

// TestAccessibility: axe finds nothing on any page, in light and dark colours, on a phone and on a
// screen, without jobs and with many. No page is wider than the window.
func TestAccessibility(t *testing.T) {
	eachPage(t, 320, func(b *tab, what string, _ int64, _ string) { b.check(what) })
}

// TestAxeFinds: axe is at work, despite the Content-Security-Policy.
func TestAxeFinds(t *testing.T) {
	b := newTab(t)
	b.open(newSite(t).url)
	b.do(`document.getElementById("main").append(document.createElement("img"))`)
	b.do(axe)
	var found []string
	for _, v := range eval[[]violation](b, runAxe) {
		found = append(found, v.ID)
	}
	if !slices.Contains(found, "image-alt") {
		t.Errorf("axe finds %q, want image-alt", found)
	}
}

// check runs axe on the page that is open, with all details open.
func (b *tab) check(what string) {
	b.t.Helper()
	b.do(`document.querySelectorAll("details").forEach(d => d.open = true)`)
	b.do(axe)
	for _, v := range eval[[]violation](b, runAxe) {
		var nodes strings.Builder
		for _, n := range v.Nodes {
			fmt.Fprintf(&nodes, "\n%s\n%s", n.HTML, n.Summary)
		}
		b.t.Errorf("%s: %s: %s%s", what, v.ID, v.Help, nodes.String())
	}
	if over := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		b.t.Errorf("%s: %d pixels wider than the window", what, over)
	}
}
