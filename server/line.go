package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// lookEvery is how often a line that nobody reads is looked at.
	lookEvery = 500 * time.Millisecond
	// maxUnread is how much a client may have said beyond its request: behind more, its end might not come through.
	maxUnread = 32 << 10
)

// duplex is a connection of which one half can end: TCP, or TLS on it.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// line is an accepted connection. While a request is served, net/http reads on, so as to notice that the client leaves;
// but one byte that comes after the request ends that, and whoever said it could leave unnoticed. From then on, and only
// then, the line itself is looked at: the TCP connection, whatever is spoken on it.
type line struct {
	duplex
	tcp     *net.TCPConn
	closing sync.Once
	release func()

	mu sync.Mutex
	// leave ends the requests of this connection.
	leave   context.CancelFunc
	serving bool
	// unread says that net/http has a byte that it does not want yet, and so reads no further.
	unread bool
	looks  *time.Timer
}

type lineKey struct{}

// withLine is for http.Server.ConnContext.
func withLine(ctx context.Context, conn net.Conn) context.Context {
	l, ok := conn.(*line)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, lineKey{}, l))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave = cancel
	return ctx
}

// watched tells the line when it is serving. It serves nobody whose certificate is no longer trusted: that client has to
// connect again, and is told why it cannot.
func watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l, ok := r.Context().Value(lineKey{}).(*line); ok {
			if !l.trusted() {
				panic(http.ErrAbortHandler)
			}
			l.serve(true)
			defer l.serve(false)
		}
		next.ServeHTTP(w, r)
	})
}

// trusted reports whether the client is still who it proved to be.
func (l *line) trusted() bool {
	s, ok := l.duplex.(*session)
	return !ok || s.trusted()
}

func (l *line) serve(serving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = serving
	l.watch()
}

// Read knows net/http's read for what comes after a request by its one byte. That byte is taken before anything else is
// read.
func (l *line) Read(p []byte) (int, error) {
	l.setUnread(false)
	n, err := l.duplex.Read(p)
	if n == 1 && len(p) == 1 {
		l.setUnread(true)
	}
	return n, err
}

func (l *line) setUnread(unread bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = unread
	l.watch()
}

// watch begins or ends the looks. It is called with mu held.
func (l *line) watch() {
	switch wanted := l.serving && l.unread; {
	case wanted && l.looks == nil:
		l.looks = time.AfterFunc(lookEvery, l.look)
	case !wanted && l.looks != nil:
		l.looks.Stop()
		l.looks = nil
	}
}

func (l *line) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looks == nil {
		return
	}
	if dropped(l.tcp) {
		l.leave()
		return
	}
	l.looks.Reset(lookEvery)
}

// Close ends what is served on the line, too. Another line may be open only when this one is not.
func (l *line) Close() error {
	err := l.duplex.Close()
	l.closing.Do(func() {
		l.release()
		l.serve(false)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.leave != nil {
			l.leave()
		}
	})
	return err
}
