package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// LockEvents asks for a claim by server-sent events.
func (h handlers) LockEvents(ctx context.Context, req api.LockEventsRequestObject) (api.LockEventsResponseObject, error) {
	if err := exchangeOf(ctx).mayKeep(req.ID); err != nil {
		return nil, err
	}
	return eventStream{h.Server, ctx, req.ID, func(ctx context.Context, out *stream) error {
		ex := exchangeOf(ctx)
		return h.store.Follow(ctx, req.ID, ex.arrived, func(lock store.Lock) error {
			ex.name = lock.Name
			return out.send(string(stateNames[lock.State]), lock.Revision, lockBody(lock))
		})
	}}, nil
}

// KeepLeaseAlive renews a lease as long as the stream is open.
func (h handlers) KeepLeaseAlive(ctx context.Context, req api.KeepLeaseAliveRequestObject) (api.KeepLeaseAliveResponseObject, error) {
	if err := exchangeOf(ctx).mayKeep(req.ID); err != nil {
		return nil, err
	}
	return eventStream{h.Server, ctx, req.ID, func(ctx context.Context, out *stream) error {
		ex := exchangeOf(ctx)
		err := h.store.Keep(ctx, req.ID, func(kept store.Kept) error {
			event, data := keptEvent(kept, ex.arrived)
			return out.send(event, 0, data)
		})
		if err != nil {
			return err
		}
		return out.send("ended", 0, api.StreamEnd{
			Code: "time_up", Detail: "this stream has lasted as long as it may: open it again",
		})
	}}, nil
}

func keptEvent(kept store.Kept, arrived time.Time) (event string, data any) {
	ttl, after := wholeSeconds(kept.Lease.TTL), millisecondsBetween(arrived, kept.Sent)
	if kept.Err != nil {
		f := failureOf(kept.Err)
		return "warning", api.LeaseWarning{Code: f.code, Detail: f.detail, TTLSeconds: ttl, RenewedAfterMS: after}
	}
	return "renewed", api.LeaseRenewed{TTLSeconds: ttl, RenewedAfterMS: after, FencingToken: kept.Lease.Token}
}

// millisecondsBetween rounds down: what a client counts from must not be too late.
func millisecondsBetween(from, to time.Time) int64 {
	between := to.Sub(from)
	ms := between.Milliseconds()
	if between < 0 && between%time.Millisecond != 0 {
		ms--
	}
	return ms
}

// eventStream is an answer that goes on for as long as the store tells something.
type eventStream struct {
	server *Server
	ctx    context.Context
	id     string
	tell   func(ctx context.Context, out *stream) error
}

func (e eventStream) VisitLockEventsResponse(w http.ResponseWriter) error { return e.run(w) }

func (e eventStream) VisitKeepLeaseAliveResponse(w http.ResponseWriter) error { return e.run(w) }

// run ends the store's call when the client does not take what it is sent.
func (e eventStream) run(w http.ResponseWriter) error {
	done, err := e.server.limits.stream(exchangeOf(e.ctx).who)
	if err != nil {
		return e.server.refuse(err)
	}
	defer done()
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	defer e.server.judgeAgain(e.ctx, e.id, cancel)()
	out := newStream(w, e.server.cfg, cancel)
	err = out.during(ctx, e.tell)
	var unwelcome *unwelcomeError
	if errors.As(context.Cause(ctx), &unwelcome) && out.begun {
		return out.last(unwelcome.cause, exchangeOf(e.ctx))
	}
	if err == nil || !out.begun || ctx.Err() != nil {
		return err
	}
	return out.last(err, exchangeOf(e.ctx))
}

// stream writes server-sent events. Several goroutines may: the store's and the heartbeat.
type stream struct {
	w      http.ResponseWriter
	conn   *http.ResponseController
	cfg    Config
	cancel context.CancelCauseFunc

	writing sync.Mutex
	begun   bool
	err     error
	// heart beats from the beginning, as long as it lives; a timer, since a goroutine for each stream would cost its stack.
	heart *time.Timer
	dead  bool
}

func newStream(w http.ResponseWriter, cfg Config, cancel context.CancelCauseFunc) *stream {
	return &stream{w: w, conn: http.NewResponseController(w), cfg: cfg, cancel: cancel}
}

// during ends the heartbeat with what it was for, a panic too.
func (out *stream) during(ctx context.Context, tell func(ctx context.Context, out *stream) error) error {
	defer out.stopHeart()
	return tell(ctx, out)
}

// begin sends the headers, and tells event sources when to come back after a stream that broke off.
func (out *stream) begin() error {
	out.begun = true
	header := out.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	out.w.WriteHeader(http.StatusOK)
	out.heart = time.AfterFunc(out.cfg.Heartbeat, out.comment)
	return out.write(fmt.Appendf(nil, "retry: %d\n\n", 1000+rand.IntN(2000)))
}

// send writes one event. The data is JSON and so one line, whatever it holds.
func (out *stream) send(event string, id int64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	block := "event: " + event + "\n"
	if id != 0 {
		block += "id: " + strconv.FormatInt(id, 10) + "\n"
	}
	out.writing.Lock()
	defer out.writing.Unlock()
	if !out.begun {
		if err := out.begin(); err != nil {
			return err
		}
	}
	return out.write([]byte(block + "data: " + string(text) + "\n\n"))
}

// last tells why the stream ends: the claim or the lease is gone, or it is only this stream that ends.
func (out *stream) last(err error, ex *exchange) error {
	f := failureOf(err)
	ex.code = f.code
	var sent error
	if f.gone() {
		sent = out.send("lost", 0, problemOf(err, ex.operation))
	} else {
		sent = out.send("ended", 0, api.StreamEnd{Code: f.code, Detail: f.detail})
	}
	if sent != nil {
		return sent
	}
	return err
}

// write gives each block its own deadline. After a write that failed nothing more is written, and the store is told.
func (out *stream) write(block []byte) error {
	if out.err != nil {
		return out.err
	}
	out.err = out.try(block)
	if out.err != nil {
		out.cancel(out.err)
	}
	if !out.dead {
		out.heart.Reset(out.cfg.Heartbeat)
	}
	return out.err
}

func (out *stream) try(block []byte) error {
	if err := out.conn.SetWriteDeadline(time.Now().Add(out.cfg.WriteTimeout)); err != nil {
		return err
	}
	if _, err := out.w.Write(block); err != nil {
		return err
	}
	return out.conn.Flush()
}

// comment is sent whenever the stream has been silent for long, so that balancers keep the line and we notice a client
// that is gone.
func (out *stream) comment() {
	out.writing.Lock()
	defer out.writing.Unlock()
	if !out.dead {
		_ = out.write([]byte(": still here\n\n")) // write has told the store already
	}
}

// stopHeart waits for a comment that is being written. None is written after it.
func (out *stream) stopHeart() {
	out.writing.Lock()
	defer out.writing.Unlock()
	out.dead = true
	if out.heart != nil {
		out.heart.Stop()
	}
}
