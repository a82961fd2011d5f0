package latchkey

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// servers are the base URLs, and what is known of which to ask.
type servers struct {
	urls []*url.URL

	mu      sync.Mutex
	current int // answered last, or is to be tried next
}

func newServers(lists []string) (*servers, error) {
	var all servers
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

// next is the server to ask now, and how long to leave it alone first: the current one or those after it, unless notUntil, by
// Retry-After, says that all are to be left alone; then that which is so for the shortest time.
func (s *servers) next(now time.Duration, notUntil map[int]time.Duration) (server int, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server = s.current
	for i := range s.urls {
		at := (s.current + i) % len(s.urls)
		if notUntil[at] <= now {
			return at, 0
		}
		if notUntil[at] < notUntil[server] {
			server = at
		}
	}
	return server, notUntil[server] - now
}

func (s *servers) answered(server int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = server
}

// failed lets the one after server be asked next, unless another has been found meanwhile.
func (s *servers) failed(server int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == server {
		s.current = (server + 1) % len(s.urls)
	}
}

// host names a server in an error.
func (s *servers) host(server int) string { return s.urls[server].Host }

func withoutPassword(text string) string { return text[strings.LastIndexByte(text, '@')+1:] }
