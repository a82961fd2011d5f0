package server

import (
	"context"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// Healthz says that this process serves requests, whatever the store does.
func (h handlers) Healthz(context.Context, api.HealthzRequestObject) (api.HealthzResponseObject, error) {
	return api.Healthz200JSONResponse{Body: api.Health{Status: "alive"}}, nil
}

// Readyz says whether this replica should get requests.
func (h handlers) Readyz(context.Context, api.ReadyzRequestObject) (api.ReadyzResponseObject, error) {
	if h.draining.Load() {
		return nil, store.ErrDraining
	}
	if err := h.store.Ready(); err != nil {
		return nil, err
	}
	asked := api.None
	if h.cfg.Gate != nil {
		asked = api.Required
	}
	return api.Readyz200JSONResponse{Body: api.Health{Status: "ready", Authentication: asked}}, nil
}

// Openapi serves the contract.
func (h handlers) Openapi(context.Context, api.OpenapiRequestObject) (api.OpenapiResponseObject, error) {
	return document{mediaType: "application/yaml", text: api.Contract}, nil
}
