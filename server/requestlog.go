package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/latchkey/latchkey/server/access"
)

// exchange is one request and its answer: what the log line and the metrics tell of it. It is the answer's
// http.ResponseWriter too, so that it sees the status and gives each answer its deadline; and the request's context, so
// that it is found there.
type exchange struct {
	http.ResponseWriter
	context.Context
	routing   *chi.Context
	arrived   time.Time
	operation *operation
	// name is that of the lock, when the request has one. It may be logged; ids may not.
	name string
	// fields are those of the body, until somebody takes them.
	fields map[string]any
	// who sends it, once that is known, and from where.
	who         *access.Principal
	credentials http.Header
	remote      string
	status      int
	code        string
	cause       error

	noStore      bool
	writeTimeout time.Duration
	// unread says that there is a body that was not read to its end; invited, that the client has been let send it.
	unread, invited bool
}

type exchangeKey struct{}

func withExchange(ctx context.Context, ex *exchange) context.Context {
	ex.Context = ctx
	return ex
}

// Value also knows the exchange itself, and what the router would otherwise make a context for.
func (ex *exchange) Value(key any) any {
	switch {
	case key == exchangeKey{}:
		return ex
	case key == chi.RouteCtxKey && ex.routing != nil:
		return ex.routing
	}
	return ex.Context.Value(key)
}

// takeFields leaves nothing of the body here, as the request may go on for long.
func (ex *exchange) takeFields() map[string]any {
	fields := ex.fields
	ex.fields = nil
	return fields
}

func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange)
}

// begin takes away the write deadline that the connection kept from its last answer, and bounds the time for the body.
//
// Two kinds of request are the last of their connection, as others may read another end of them than net/http does, and
// take what follows for no request: one in chunks, which may have had a Content-Length too, and one of HTTP/1.0, which
// may have had a Transfer-Encoding.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) *exchange {
	s.metrics.inFlight.Inc()
	ex := &exchange{
		ResponseWriter: w,
		arrived:        time.Now(),
		operation:      unmatched,
		noStore:        r.Method == http.MethodGet,
		writeTimeout:   s.cfg.WriteTimeout,
		remote:         r.RemoteAddr,
		unread:         r.Body != http.NoBody,
	}
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		ex.Header().Set("Connection", "close")
	}
	conn := http.NewResponseController(w)
	ex.note(conn.SetWriteDeadline(time.Time{}))
	if ex.unread {
		ex.note(conn.SetReadDeadline(ex.arrived.Add(s.cfg.BodyTimeout)))
	}
	return ex
}

// Unwrap is for http.ResponseController.
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.ResponseWriter }

// WriteHeader begins the answer: from here on the client has a bounded time to take it. Where the connection goes on,
// net/http first reads the body to its end, so it must not go on when nobody has.
func (ex *exchange) WriteHeader(status int) {
	if ex.status == 0 {
		ex.status = status
		if ex.noStore {
			ex.Header().Set("Cache-Control", "no-store")
		}
		if ex.unread {
			ex.Header().Set("Connection", "close")
		}
		ex.note(http.NewResponseController(ex.ResponseWriter).SetWriteDeadline(time.Now().Add(ex.writeTimeout)))
	}
	ex.ResponseWriter.WriteHeader(status)
}

func (ex *exchange) Write(b []byte) (int, error) {
	if ex.status == 0 {
		ex.WriteHeader(http.StatusOK)
	}
	return ex.ResponseWriter.Write(b)
}

// What is still read of a body after the answer.
const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// linger reads on for a little when the answer did not wait for the body: a line that is closed with something unread can
// take the answer away from a client that is still sending. One that asked whether to send has nothing under way.
func (ex *exchange) linger(r *http.Request) {
	if !ex.unread {
		return
	}
	conn := http.NewResponseController(ex.ResponseWriter)
	if ex.invited || r.Header.Get("Expect") == "" {
		_ = conn.SetReadDeadline(time.Now().Add(lingerTime)) // whatever fails here, the line ends
		_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)
	}
	_ = conn.SetReadDeadline(time.Now()) // net/http would read on
}

// note keeps a connection's failure for the log. Whoever reads or writes next will fail of it.
func (ex *exchange) note(err error) { ex.cause = errors.Join(ex.cause, err) }

// recoverPanic answers a panic like any other failure. When the answer has begun, the connection is cut, so that the
// client does not take half of it for the whole.
func (s *Server) recoverPanic(ex *exchange, r *http.Request) {
	p := recover()
	switch {
	case p == nil:
		return
	case p == http.ErrAbortHandler:
		panic(p)
	}
	s.log.Error("panic", "operation", ex.operation.id, "panic", panicText(p), "stack", string(debug.Stack()))
	if ex.status != 0 {
		ex.cause = errPanic
		panic(http.ErrAbortHandler)
	}
	s.fail(ex, r.WithContext(withExchange(r.Context(), ex)), errPanic)
}

// panicText tells what the runtime says. Other panics can hold anything, an id too: of them only the type is told.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a %T", p)
}

// end leaves the one line of a request.
func (s *Server) end(ex *exchange, r *http.Request) {
	ended := time.Now()
	took := ended.Sub(ex.arrived)
	left := r.Context().Err() != nil && errors.Is(ex.cause, context.Canceled)
	s.metrics.inFlight.Dec()
	s.metrics.observe(ex, left, took)

	to, level := s.logs[ex.operation], levelOf(ex, left)
	if to == nil {
		to = logOf(s.log.Handler(), ex.operation, knownMethod(r.Method))
	}
	if !to.Enabled(r.Context(), level) {
		return
	}
	// no place in the code is of interest
	record := slog.NewRecord(ended, level, "request", 0)
	record.AddAttrs(slog.Int("status", ex.status), slog.Float64("took_ms", float64(took.Microseconds())/1000))
	if ex.code != "" {
		record.AddAttrs(slog.String("code", ex.code))
	}
	if ex.name != "" {
		record.AddAttrs(slog.String("name", ex.name))
	}
	if ex.who != nil && ex.who.Name != "" {
		record.AddAttrs(slog.String("principal", ex.who.Name))
	}
	if ex.status >= http.StatusInternalServerError && ex.cause != nil {
		record.AddAttrs(slog.String("cause", ex.cause.Error()))
	}
	if left {
		record.AddAttrs(slog.Bool("client_left", true))
	}
	_ = to.Handle(r.Context(), record) // as slog.Logger does
}

// logsOf has, for each operation, where its lines go: what they begin with is written already.
func logsOf(c contract, log slog.Handler) map[*operation]slog.Handler {
	logs := make(map[*operation]slog.Handler, len(c))
	for route, op := range c {
		logs[op] = logOf(log, op, route.method)
	}
	return logs
}

func logOf(log slog.Handler, op *operation, method string) slog.Handler {
	return log.WithAttrs([]slog.Attr{
		slog.String("operation", op.id), slog.String("method", method), slog.String("route", op.path),
	})
}

// levelOf warns of no client that left: that is what clients do, and the 503 was for nobody. Nor does it of each request too
// many: there are very many of those when there are any, a line that warns is written at once, and a metric counts them.
func levelOf(ex *exchange, left bool) slog.Level {
	switch {
	case left, ex.code == "overloaded":
		return slog.LevelInfo
	case ex.status == http.StatusInternalServerError:
		return slog.LevelError
	case ex.status > http.StatusInternalServerError:
		return slog.LevelWarn
	case ex.operation.probe():
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// probe tells what machines ask every few seconds.
func (o *operation) probe() bool {
	return o.path == "/healthz" || o.path == "/readyz" || o.path == "/metrics"
}

// knownMethod keeps what a client made up out of the log.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}
