package gateway

import _ "embed" // for openapi.json

//go:embed openapi.json
var openAPI []byte

// openAPI returns the description of the API.
func (q *request) openAPI() (any, error) { return openAPI, nil }
