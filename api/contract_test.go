package api

import (
	"bytes"
	"os"
	"testing"
)

func TestTheEmbeddedContractIsTheContract(t *testing.T) {
	source, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(source, Contract) {
		t.Error("api/openapi.yaml is stale: run go generate ./api")
	}
}
