package server

import (
	"net/http"

	"github.com/latchkey/latchkey/api"
)

// bodied serves the operations that have a body, from the fields that the guard has read: the generated code would read
// the text again.
type bodied struct {
	api.ServerInterface
	handlers handlers
}

// CreateLock claims a name.
func (b bodied) CreateLock(w http.ResponseWriter, r *http.Request, params api.CreateLockParams) {
	body := lockRequestOf(exchangeOf(r.Context()).takeFields())
	answer, err := b.handlers.CreateLock(r.Context(), api.CreateLockRequestObject{Params: params, Body: &body})
	if err == nil {
		err = answer.VisitCreateLockResponse(w)
	}
	if err != nil {
		b.handlers.fail(w, r, err)
	}
}

// CreateLease makes a lease.
func (b bodied) CreateLease(w http.ResponseWriter, r *http.Request) {
	body := leaseRequestOf(exchangeOf(r.Context()).takeFields())
	answer, err := b.handlers.CreateLease(r.Context(), api.CreateLeaseRequestObject{Body: &body})
	if err == nil {
		err = answer.VisitCreateLeaseResponse(w)
	}
	if err != nil {
		b.handlers.fail(w, r, err)
	}
}

func lockRequestOf(fields map[string]any) api.LockRequest {
	return api.LockRequest{
		Name:        given[string](fields["name"]),
		TTLSeconds:  given[int64](fields["ttl_seconds"]),
		LeaseID:     given[string](fields["lease_id"]),
		WaitSeconds: given[int64](fields["wait_seconds"]),
		Queue:       given[bool](fields["queue"]),
		Holder:      given[string](fields["holder"]),
		Metadata:    pairsOf(fields["metadata"]),
	}
}

func leaseRequestOf(fields map[string]any) api.LeaseRequest {
	return api.LeaseRequest{
		TTLSeconds: given[int64](fields["ttl_seconds"]),
		Holder:     given[string](fields["holder"]),
		Metadata:   pairsOf(fields["metadata"]),
	}
}

// given is the value of a field, or zero for one that is not there.
func given[T any](value any) T {
	v, _ := value.(T)
	return v
}

func pairsOf(value any) api.Metadata {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	pairs := make(api.Metadata, len(fields))
	for key, value := range fields {
		pairs[key] = given[string](value)
	}
	return pairs
}
