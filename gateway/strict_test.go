package gateway_test

import (
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
)

// TestOddBodies: what is likely to be a mistake is refused, and the answer names the field, and
// says what is wrong without words of Go.
func TestOddBodies(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{})
	defer h.Close()
	const held = `"id": 1, "fence": 1, "worker": "w"`
	for _, c := range []struct{ path, body, code, field, problem string }{
		{"enqueue", ` `, wire.CodeMalformed, "", "empty"},
		{"enqueue", `{"jobs": [{"kind": "k",}]}`, wire.CodeMalformed, "", "byte 24"},
		{"enqueue", `{"jobs": [{"kind": "k"`, wire.CodeMalformed, "", "byte 22"},
		{"enqueue", "{\"jobs\": [{\"kind\": \"\xff\"}]}", wire.CodeMalformed, "", "UTF-8"},
		{"enqueue", `"jobs"`, wire.CodeMalformed, "", "a string where an object"},
		{"enqueue", `null`, wire.CodeMalformed, "", "null where an object"},
		{"enqueue", `{"jobs": [null]}`, wire.CodeMalformed, "jobs[0]", "null where an object"},
		{"enqueue", `{"jobs": "k"}`, wire.CodeMalformed, "jobs", "a string where a list"},
		{"enqueue", `{"jobs": null}`, wire.CodeInvalid, "jobs", "missing"},
		{"enqueue", `{"jobs": [{"kind": "k"}, {}]}`, wire.CodeInvalid, "jobs[1].kind", "missing"},
		{"enqueue", `{"jobs": [{"kind": {}}]}`, wire.CodeMalformed, "jobs[0].kind", "an object where a string"},
		{"enqueue", `{"jobs": [{"kind": "k", "kind": "l"}]}`, wire.CodeMalformed, "jobs[0].kind", "twice"},
		{"enqueue", `{"jobs": [{"kind": "k", "\u006bind": "l"}]}`, wire.CodeMalformed, "jobs[0].kind", "twice"},
		{"enqueue", `{"jobs": [{"Kind": "k"}]}`, wire.CodeMalformed, "jobs[0].Kind", `did you mean "kind"`},
		{"enqueue", `{"jobs": [{"kind": "k", "colour": "red"}]}`, wire.CodeMalformed, "jobs[0].colour", "unknown"},
		{"enqueue", `{"jobs": [{"kind": "k", "priority": 1.5}]}`, wire.CodeMalformed, "jobs[0].priority", "whole number between -2147483648 and 2147483647"},
		{"enqueue", `{"jobs": [{"kind": "k", "delay_ns": "1s"}]}`, wire.CodeMalformed, "jobs[0].delay_ns", "a string where a whole number"},
		{"enqueue", `{"jobs": [{"kind": "k", "ordered": 1}]}`, wire.CodeMalformed, "jobs[0].ordered", "a number where true or false"},
		{"enqueue", `{"jobs": [{"kind": "k", "scheduled_at": "tomorrow"}]}`, wire.CodeMalformed, "jobs[0].scheduled_at", "a time such as"},
		{"enqueue", `{"jobs": [{"kind": "k", "headers": {"a": 1}}]}`, wire.CodeMalformed, "jobs[0].headers.a", "a number where a string"},
		{"enqueue", `{"jobs": [{"kind": "k", "headers": {"a": "1", "a": "2"}}]}`, wire.CodeMalformed, "jobs[0].headers.a", "twice"},
		{"extend", `{"jobs": [{}]}`, wire.CodeInvalid, "jobs[0].id", "missing"},
		{"extend", `{"jobs": [{"id": 1, "fence": null, "worker": "w"}]}`, wire.CodeInvalid, "jobs[0].fence", "missing"},
		{"settle", `{"outcomes": [{` + held + `}]}`, wire.CodeInvalid, "outcomes[0].action", "missing"},
		{"settle", `{"outcomes": [{` + held + `, "action": "retry", "delay_ns": -1}]}`, wire.CodeInvalid, "outcomes[0].delay_ns", "at least 0"},
		{"settle", `{"outcomes": [{` + held + `, "action": "retry", "attempt": -1}]}`, wire.CodeInvalid, "outcomes[0].attempt", "at least 0"},
		{"progress", `{"progress": [{"id": 1, "fence": 1, "value": 1}]}`, wire.CodeInvalid, "progress[0].worker", "missing"},
	} {
		w := send(h, "POST", "/v1/"+c.path, c.body)
		wantError(t, c.path+" "+c.body, w, c.code, c.field)
		if text := w.Body.String(); !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), c.problem) {
			t.Errorf("%s %s: got %s, want a message with %q", c.path, c.body, text, c.problem)
		}
		for _, word := range []string{"wire.", "int32", "int64", "[]", "struct", "json:", "time.Time", "Go "} {
			if strings.Contains(w.Body.String(), word) {
				t.Errorf("%s %s: the answer has %q of Go: %s", c.path, c.body, word, w.Body)
			}
		}
	}
	if counts, err := q.Counts(t.Context()); err != nil || len(counts) != 0 {
		t.Errorf("after odd bodies: %+v, %v; want no jobs", counts, err)
	}
}

// TestPlainBodies: null is as good as no field where none is needed, and what is in a payload is
// not looked at.
func TestPlainBodies(t *testing.T) {
	h := open(t, memory.New(memory.Options{}), gateway.Options{})
	defer h.Close()
	for _, job := range []string{
		`"priority": null, "scheduled_at": null, "headers": null, "payload": null`,
		` "payload" : { "a" : [ "\"]}" , { "A" : 1 , "a" : 2 , "a" : -1.5e3 } , true , null ] } , "headers" : { "Any" : "\\" } `,
		`"headers": {}, "payload": [], "scheduled_at": "2026-01-31T15:04:05.123456789+01:00", "ordered": false`,
	} {
		read[wire.EnqueueAnswer](t, send(h, "POST", "/v1/enqueue", `{"jobs": [{"kind": "k", `+job+`}]}`))
	}
}
