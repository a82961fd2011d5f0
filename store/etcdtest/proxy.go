package etcdtest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Direction is a way through a [Proxy].
type Direction int

const (
	ToServer Direction = iota
	ToClient
)

const (
	proxyChunk = 32 << 10
	proxyQueue = 256 // chunks on their way, each way, on each connection
	// leastReply is the size of what can be an answer: the acknowledgements of HTTP/2 are smaller.
	leastReply = 48
)

// Proxy is a TCP line to one endpoint that can fail.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when ways, cut or closed change
	ways    [2]way
	cut     bool
	closed  bool
	swallow int // replies yet to be swallowed
	lines   map[*line]struct{}
}

// way is how one direction behaves.
type way struct {
	dark  bool
	delay time.Duration
}

// line is one connection of a client, with its other half once that is dialled.
type line struct {
	client, server net.Conn
	end            sync.Once
	ended          chan struct{}
}

// NewProxy listens in front of target, "host:port", until the end of the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := listen()
	if err != nil {
		t.Fatalf("etcdtest: proxy: %v", err)
	}
	p := &Proxy{target: target, listener: l, changed: make(chan struct{}), lines: map[*line]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens: "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Client returns a client that goes through the proxy. The test's end closes it.
func (p *Proxy) Client(t testing.TB, faults ...*Faults) *clientv3.Client {
	t.Helper()
	return newClient(t, []string{p.Addr()}, faults)
}

// Cut resets all connections, and each new one, until Heal.
func (p *Proxy) Cut() {
	p.change(func() { p.cut = true })
	p.Reset()
}

// Reset resets the connections there are now.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		l.reset()
	}
}

// Blackhole carries nothing in the directions named, both if none is, until Heal. Connections stay and new ones are
// accepted. Nothing is lost of what was sent, as TCP would send it again: it arrives after Heal.
func (p *Proxy) Blackhole(dirs ...Direction) {
	p.change(func() { p.each(dirs, func(w *way) { w.dark = true }) })
}

// Delay makes every byte in the directions named, both if none is, arrive so much later.
func (p *Proxy) Delay(d time.Duration, dirs ...Direction) {
	p.change(func() { p.each(dirs, func(w *way) { w.delay = d }) })
}

// Swallow loses the next n replies, until Heal: what the server has done its client never hears of, as each reply's
// connection is reset with it.
func (p *Proxy) Swallow(n int) {
	p.change(func() { p.swallow = n })
}

// swallows decides whether a chunk is one of the replies to be lost.
func (p *Proxy) swallows(d Direction, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.swallow == 0 || d != ToClient || bytes < leastReply {
		return false
	}
	p.swallow--
	return true
}

// Heal ends Cut, Blackhole, Delay and Swallow.
func (p *Proxy) Heal() {
	p.change(func() { p.cut, p.ways, p.swallow = false, [2]way{}, 0 })
}

// Conns counts the open connections.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

func (p *Proxy) close() {
	p.change(func() { p.closed = true })
	p.listener.Close()
	p.Reset()
	p.running.Wait()
}

func (p *Proxy) change(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) each(dirs []Direction, what func(*way)) {
	if len(dirs) == 0 {
		dirs = []Direction{ToServer, ToClient}
	}
	for _, d := range dirs {
		what(&p.ways[d])
	}
}

func (p *Proxy) way(d Direction) (way, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ways[d], p.changed
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		l := &line{client: conn, ended: make(chan struct{})}
		p.mu.Lock()
		refused := p.cut || p.closed
		if !refused {
			p.lines[l] = struct{}{}
		}
		p.mu.Unlock()
		if refused {
			l.reset()
			continue
		}
		p.running.Go(func() { p.carry(l) })
	}
}

func (p *Proxy) carry(l *line) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.close()
		delete(p.lines, l)
	}()
	if !p.lit(l, ToServer) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.server = server
	p.mu.Unlock()
	select {
	case <-l.ended: // reset while dialling
		server.Close()
		return
	default:
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, ToServer, l.client, server) })
	both.Go(func() { p.pump(l, ToClient, server, l.client) })
	both.Wait()
}

// lit waits until d carries again. It returns false if the line ended first.
func (p *Proxy) lit(l *line, d Direction) bool {
	for {
		w, changed := p.way(d)
		if !w.dark {
			return true
		}
		select {
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}

type chunk struct {
	bytes []byte
	read  time.Time
}

// pump carries one direction. Reading goes on while what was read waits for its time, so a delay costs no throughput.
func (p *Proxy) pump(l *line, d Direction, from io.Reader, to net.Conn) {
	chunks := make(chan chunk, proxyQueue)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(chunks)
		for {
			buf := make([]byte, proxyChunk)
			n, err := from.Read(buf)
			if n > 0 {
				select {
				case chunks <- chunk{buf[:n], time.Now()}:
				case <-l.ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	for c := range chunks {
		if !p.due(l, d, c.read) || !p.lit(l, d) || p.swallows(d, len(c.bytes)) {
			l.reset()
			return
		}
		if _, err := to.Write(c.bytes); err != nil {
			l.reset()
			return
		}
	}
	if half, ok := to.(*net.TCPConn); ok && p.lit(l, d) {
		half.CloseWrite()
	}
}

// due waits until a byte that was read then may arrive. It returns false if the line ended first.
func (p *Proxy) due(l *line, d Direction, read time.Time) bool {
	for {
		w, changed := p.way(d)
		left := time.Until(read.Add(w.delay))
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-l.ended:
			timer.Stop()
			return false
		}
	}
}

// reset closes both halves so that their other ends see a reset. The caller holds the proxy's lock, or carries the line.
func (l *line) reset() {
	for _, conn := range []net.Conn{l.client, l.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
	}
	l.close()
}

func (l *line) close() {
	l.end.Do(func() { close(l.ended) })
	for _, conn := range []net.Conn{l.client, l.server} {
		if conn != nil {
			conn.Close()
		}
	}
}
