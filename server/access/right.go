package access

// Right is what may be done with a name, or a set of that.
type Right uint8

const (
	// Lock is to claim the name, and to keep, renew and release one's own claims.
	Lock Right = 1 << iota
	// Read is to see who holds the name and who waits for it.
	Read
	// Admin is to release anybody's claim on the name, and to read. It is not to lock.
	Admin
)

// String is how the auth file spells one right.
func (r Right) String() string {
	for text, right := range rights {
		if right == r {
			return text
		}
	}
	return "unknown"
}

var rights = map[string]Right{"lock": Lock, "read": Read, "admin": Admin}

// whole is the set with what its rights include.
func (r Right) whole() Right {
	if r&Admin != 0 {
		r |= Read
	}
	return r
}
