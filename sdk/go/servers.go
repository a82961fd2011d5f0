package latchkey

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// servers are the base URLs, and what is known of which to ask.
type servers struct {
	urls []*url.URL

	mu      sync.Mutex
	current int                   // answered last
	behind  map[int]time.Duration // until when one that did not answer is asked after those that did
}

// behindFor is how long a server that did not answer is asked only after those that did: longer than any one call.
const behindFor = time.Minute

func newServers(lists []string) (*servers, error) {
	all := servers{behind: map[int]time.Duration{}}
	var faults []error
	for _, text := range strings.Split(strings.Join(lists, ","), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			faults = append(faults, fmt.Errorf("latchkey: server %q is not a base URL like %s", withoutPassword(text), defaultServer))
			continue
		}
		all.urls = append(all.urls, u)
	}
	if len(all.urls) == 0 {
		u, _ := url.Parse(defaultServer) // a constant
		all.urls = []*url.URL{u}
	}
	return &all, errors.Join(faults...)
}

// next is the server to ask now, and how long to leave it alone first: the current one or those after it, and of those that did
// not answer the one whose failure is the oldest; unless notUntil, by Retry-After, says that all are to be left alone: then that
// which is so for the shortest time.
func (s *servers) next(now time.Duration, notUntil map[int]time.Duration) (server int, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make([]int, len(s.urls))
	for i := range order {
		order[i] = (s.current + i) % len(s.urls)
	}
	server = slices.MinFunc(order, func(a, b int) int { // the first of equals
		return cmp.Or(
			cmp.Compare(max(0, notUntil[a]-now), max(0, notUntil[b]-now)),
			cmp.Compare(max(0, s.behind[a]-now), max(0, s.behind[b]-now)),
		)
	})
	return server, max(0, notUntil[server]-now)
}

func (s *servers) number() int { return len(s.urls) }

// untried are the servers that have not been asked yet.
func (s *servers) untried(asked map[int]bool) int { return len(s.urls) - len(asked) }

func (s *servers) answered(server int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = server
	delete(s.behind, server)
}

// failed lets server be asked after the others.
func (s *servers) failed(server int, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == server {
		s.current = (server + 1) % len(s.urls)
	}
	s.behind[server] = now + behindFor
}

// host names a server in an error.
func (s *servers) host(server int) string { return s.urls[server].Host }

func withoutPassword(text string) string { return text[strings.LastIndexByte(text, '@')+1:] }
