package gateway

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzBody: what checkBody accepts, package json can decode, without unknown fields.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"jobs": [{"kind": "k", "payload": {"a": [1e999, "\"]}"]}, "headers": {"a": "\\"}, "scheduled_at": "2026-01-31T15:04:05Z"}]}`))
	f.Add([]byte(`{"queues": ["q"], "kinds": null, "limit": -0, "worker": "\ud800", "wait_ns": 9223372036854775807}`))
	f.Add([]byte(` { "outcomes" : [ { "id" : 1 , "fence" : 2 , "worker" : "w" , "action" : "done" , "delay_ns" : 1 , "output" : null } ] } `))
	f.Add([]byte(`{"jobs": [{"id": 1, "fence": 1, "worker": "w"}, null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range routes {
			if r.request == nil || checkBody(text, reflect.TypeOf(r.request)) != nil {
				continue
			}
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(reflect.New(reflect.TypeOf(r.request)).Interface()); err != nil {
				t.Errorf("%s: checkBody accepts %s, but: %v", r.path, text, err)
			}
		}
	})
}
