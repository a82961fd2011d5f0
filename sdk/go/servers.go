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

	mu       sync.Mutex
	current  int             // answered last, or is to be tried next
	notUntil []time.Duration // by Retry-After, on the client's clock
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
	all.notUntil = make([]time.Duration, len(all.urls))
	return &all, errors.Join(faults...)
}

// next is the server to ask now, and how long it asked to be left alone first: the current one, or the next that need not be.
func (s *servers) next(now time.Duration) (server int, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server = s.current
	for i := range s.urls {
		at := (s.current + i) % len(s.urls)
		if s.notUntil[at] <= now {
			return at, 0
		}
		if s.notUntil[at] < s.notUntil[server] {
			server = at
		}
	}
	return server, s.notUntil[server] - now
}

func (s *servers) answered(server int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.notUntil[server] = server, 0
}

// failed lets the one after server be asked next, unless another has been found meanwhile.
func (s *servers) failed(server int, notUntil time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notUntil[server] = notUntil
	if s.current == server {
		s.current = (server + 1) % len(s.urls)
	}
}

// host names a server in an error.
func (s *servers) host(server int) string { return s.urls[server].Host }

func withoutPassword(text string) string { return text[strings.LastIndexByte(text, '@')+1:] }
