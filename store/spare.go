package store

import "sync"

// spares are the nonces of claims that this replica has removed, for the next claims on their names. A name that is
// taken again and again then has a few etcd keys, where it would have a new one each time: etcd keeps the dead ones
// until it compacts, and whether a name is free is asked of all of them.
//
// A nonce is here only by an answered transaction that removed its claim, so it is one replica's at a time. Those of
// claims with a key or on a client's lease are made again by their clients, and never come here.
type spares struct {
	mu         sync.Mutex
	young, old map[string][]spare
}

// spare is a nonce whose claims are gone that were made at or before a revision. If one stands nevertheless, etcd was
// set back to a time before.
type spare struct {
	nonce nonce
	gone  int64
}

const (
	// spareNames is how many names are remembered at the least once there are so many, and half of what they are at the most.
	spareNames = 8192
	// sparesPerName bounds those of one name.
	sparesPerName = 16
)

// take is a nonce for a new claim on a name.
func (s *spares) take(name string) spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []map[string][]spare{s.young, s.old} {
		if free := m[name]; len(free) > 0 {
			last := len(free) - 1
			m[name] = free[:last]
			if last == 0 {
				delete(m, name)
			}
			return free[last]
		}
	}
	return spare{nonce: newNonce()}
}

// put takes in the nonce of a claim that was gone at a revision.
func (s *spares) put(gone standing, at int64) {
	if gone.Digest != "" || gone.ClientLease != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= spareNames {
		s.old, s.young = s.young, make(map[string][]spare)
	}
	if free := s.young[gone.name]; len(free) < sparesPerName {
		s.young[gone.name] = append(free, spare{gone.nonce, at})
	}
}
