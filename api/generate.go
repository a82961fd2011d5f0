// Package api is the contract, openapi.yaml, as Go: the types, the interface that a server implements, and a client.
package api

import _ "embed"

//go:generate cp ../openapi.yaml openapi.yaml
//go:generate go tool -modfile=tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml

// Contract is openapi.yaml, word for word.
//
//go:embed openapi.yaml
var Contract []byte
