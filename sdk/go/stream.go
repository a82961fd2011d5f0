package latchkey

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	silence  = 30 * time.Second // a stream sends something every 10 s
	mostLine = 64 << 10         // bytes of a line of a stream
)

// event is one of a stream of server-sent events.
type event struct {
	kind string
	data []byte
	sent time.Time // when the stream's request was
}

// streams are where they are found below what they are about.
var streams = map[string]string{"locks/": "/events", "leases/": "/keepalive"}

// stream opens a stream at the first server that has it, and hands each event to take until that wants no more.
func (c *Client) stream(ctx context.Context, path, id string, take func(event) (more bool, err error)) error {
	if err := checkID(id); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(c.timeout, func() { cancel(errOutOfTime) })
	defer alarm.Stop()
	var last error
	notUntil := map[int]time.Duration{}
	for pauses := (backoff{most: mostPause}); ; {
		server, pause := c.servers.next(c.now(), notUntil)
		if !sleep(ctx, pause) {
			return c.broken(ctx, server, last)
		}
		sent := time.Now()
		resp, err := c.open(ctx, server, request{method: http.MethodGet, path: path + id + streams[path]})
		switch {
		case err == nil:
			defer resp.Body.Close()
			err := read(resp.Body, func() { alarm.Reset(silence) }, func(e event) (bool, error) {
				alarm.Stop() // the time that the reader takes is its own
				defer alarm.Reset(silence)
				e.sent = sent
				return take(e)
			})
			return c.broken(ctx, server, err)
		case outcomeOf(err) == definite:
			return err
		case ctx.Err() == nil:
			last = err
		}
		notUntil[server] = c.now() + pauseOf(err)
		if !sleep(ctx, pauses.next()) {
			return c.broken(ctx, server, last)
		}
	}
}

// broken says why a stream ended, nil if its reader wanted no more.
func (c *Client) broken(ctx context.Context, server int, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errOutOfTime):
		c.servers.failed(server, c.now())
		return &UnreachableError{Last: &lineError{c.servers.host(server), errors.Join(cause, err)}}
	case cause != nil:
		return givenUp(ctx, nil)
	case err != nil:
		c.servers.failed(server, c.now())
		return &UnreachableError{Last: &lineError{c.servers.host(server), err}}
	}
	return nil
}

// open returns the answer with its body yet to be read.
func (c *Client) open(ctx context.Context, server int, r request) (*http.Response, error) {
	resp, _, err := c.send(ctx, server, r)
	if err != nil {
		c.servers.failed(server, c.now())
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		c.servers.answered(server)
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, mostAnswer)) // what is missing makes it no problem document
	told := newError(resp, body)
	if told.outcome() != definite {
		c.servers.failed(server, c.now())
	}
	return nil, told
}

// read reads events, as the standard of server-sent events writes them, and tells of every line.
func read(body io.Reader, alive func(), take func(event) (more bool, err error)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, mostLine)
	var e event
	for lines.Scan() {
		alive()
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(lines.Bytes()) == 0:
			if e.data != nil {
				if more, err := take(e); err != nil || !more {
					return err
				}
			}
			e = event{}
		case string(field) == "event":
			e.kind = string(value)
		case string(field) == "data":
			e.data = append(e.data, value...) // one line each here
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
