package gateway

import (
	"bytes"
	_ "embed" // for openapi.json
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
)

// openapi.json describes the API, but for its paths: what the routes say stands there.
//
//go:embed openapi.json
var components []byte

// openAPI returns the description of the API.
func (q *request) openAPI() (any, error) { return q.h.description, nil }

// describe returns openapi.json with the paths of the routes.
func describe(routes []route) ([]byte, error) {
	paths := make(map[string]any)
	for _, r := range routes {
		paths[r.path] = map[string]any{strings.ToLower(r.method()): r.describe()}
	}
	text, err := json.MarshalIndent(paths, "  ", "  ")
	return bytes.Replace(components, []byte(`"paths": {}`), append([]byte(`"paths": `), text...), 1), err
}

// describe returns the route's operation.
func (r route) describe() map[string]any {
	answer := any(map[string]any{"type": "object"})
	if r.ok != nil {
		answer = reference("schemas", reflect.TypeOf(r.ok).Name())
	}
	responses := map[string]any{"200": map[string]any{"description": "Success.", "content": inJSON(answer, nil)}}
	for _, status := range r.failures() {
		responses[strconv.Itoa(status)] = reference("responses", responseNames[status])
	}
	operation := map[string]any{"operationId": r.name(), "summary": r.summary, "responses": responses}
	if r.isOpen {
		operation["security"] = []any{}
	}
	if r.request != nil {
		schema := reference("schemas", reflect.TypeOf(r.request).Name())
		operation["requestBody"] = map[string]any{"required": true, "content": inJSON(schema, r.request)}
	}
	var parameters []any
	if r.isOfJob() {
		parameters = append(parameters, reference("parameters", "id"))
	}
	for _, name := range r.parameters {
		parameters = append(parameters, reference("parameters", name))
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	return operation
}

// isOfJob reports whether the path names a job.
func (r route) isOfJob() bool { return strings.Contains(r.path, "{id}") }

// name returns the operation's name, which is the last word of the path.
func (r route) name() string {
	if path.Base(r.path) == "{id}" {
		return "job"
	}
	return strings.TrimSuffix(path.Base(r.path), ".json")
}

func reference(kind, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + kind + "/" + name}
}

func inJSON(schema, example any) map[string]any {
	body := map[string]any{"schema": schema}
	if example != nil {
		body["example"] = example
	}
	return map[string]any{"application/json": body}
}

// failures returns the statuses of errors that the route may answer.
func (r route) failures() []int {
	if r.isOpen {
		return nil
	}
	all := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
	if r.request != nil {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if r.isOfJob() {
		all = append(all, http.StatusNotFound)
	}
	return append(all, r.also...)
}

// responseNames are the names of openapi.json's responses.
var responseNames = map[int]string{
	http.StatusBadRequest:            "Invalid",
	http.StatusUnauthorized:          "Unauthenticated",
	http.StatusForbidden:             "Forbidden",
	http.StatusNotFound:              "NotFound",
	http.StatusConflict:              "Conflict",
	http.StatusRequestEntityTooLarge: "TooLarge",
	http.StatusUnsupportedMediaType:  "MediaType",
	http.StatusMisdirectedRequest:    "OtherGateway",
	http.StatusTooManyRequests:       "TooMany",
	http.StatusInternalServerError:   "Failed",
	http.StatusNotImplemented:        "NotSupported",
	http.StatusServiceUnavailable:    "Unavailable",
}
