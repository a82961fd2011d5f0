package store

import "context"

type ownerKey struct{}

// As says on whose behalf the store is asked. What is made with such a context is that principal's, and its id is of no
// use to another: to them it is as if it did not exist. Without it, as without authentication, all are one principal.
func As(ctx context.Context, principal string) context.Context {
	if principal == "" {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, principal)
}

func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// NameOf is the name that an id says it is for. Whether there is such a claim it does not say.
func NameOf(id string) (name string, ok bool) {
	lock, ok := parseLockID(id)
	return lock.name, ok
}

// openID takes the id of a claim that is the asking principal's own.
func (s *Store) openID(ctx context.Context, id string) (lockID, bool) {
	return s.keys.ids.open(id, ownerOf(ctx))
}

// owned refuses a witness that is another's. Whoever has an id can have found it in a log.
func (w witness) owned(ctx context.Context) error {
	owner := ""
	if w.lock != nil {
		owner = w.lock.Owner
	} else {
		owner = w.record.Owner
	}
	if owner != ownerOf(ctx) {
		return ErrNoLease
	}
	return nil
}
