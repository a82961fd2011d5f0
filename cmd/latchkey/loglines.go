package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// linesApart is how far apart lines are written one by one; what comes closer is written together.
	linesApart = 20 * time.Millisecond
	// mostTogether is in bytes.
	mostTogether = 64 << 10
)

// logLines writes the lines of a busy program together: each write wakes whoever reads them. A line that comes alone is
// written at once.
type logLines struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte
	written time.Time
	due     *time.Timer // not nil while something waits
}

// Write takes whole lines. What the writing of those that wait says is nobody's to hear, as with slog.Logger.
func (l *logLines) Write(lines []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due == nil && time.Since(l.written) >= linesApart {
		l.written = time.Now()
		return l.to.Write(lines)
	}
	l.waiting = append(l.waiting, lines...)
	switch {
	case len(l.waiting) >= mostTogether:
		l.writeWaiting()
	case l.due == nil:
		l.due = time.AfterFunc(linesApart, l.flush)
	}
	return len(lines), nil
}

// flush writes what waits.
func (l *logLines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeWaiting()
}

func (l *logLines) writeWaiting() {
	if l.due != nil {
		l.due.Stop()
		l.due = nil
	}
	if len(l.waiting) == 0 {
		return
	}
	_, _ = l.to.Write(l.waiting)
	l.waiting, l.written = l.waiting[:0], time.Now()
}

// prompt lets no line wait from Warn on: the program may not live much longer.
type prompt struct {
	slog.Handler
	lines *logLines
}

func (p prompt) Handle(ctx context.Context, r slog.Record) error {
	err := p.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		p.lines.flush()
	}
	return err
}

func (p prompt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return prompt{p.Handler.WithAttrs(attrs), p.lines}
}

func (p prompt) WithGroup(name string) slog.Handler {
	return prompt{p.Handler.WithGroup(name), p.lines}
}
