package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// teller writes what the client lived through as latchkey says everything else: a line that begins with its own name and the
// lock's.
type teller struct {
	to    io.Writer
	attrs []slog.Attr
}

func (t teller) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (t teller) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(t.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	var lock, left, cause string
	for _, a := range attrs {
		switch a.Key {
		case "lock":
			lock = shown(a.Value.String()) + ": "
		case "left":
			left = fmt.Sprintf(", %v left", a.Value.Duration().Round(100*time.Millisecond))
		case "error":
			cause = ": " + withoutPackage(a.Value.String())
		}
	}
	_, err := fmt.Fprintf(t.to, "latchkey: %s%s%s%s\n", lock, r.Message, left, cause)
	return err
}

func (t teller) WithAttrs(attrs []slog.Attr) slog.Handler {
	return teller{t.to, slices.Concat(t.attrs, attrs)}
}

// WithGroup is for loggers that sort what they tell, which that of a client does not.
func (t teller) WithGroup(string) slog.Handler { return t }

// withoutPackage leaves out the name that the SDK puts before each error.
func withoutPackage(text string) string { return strings.ReplaceAll(text, "latchkey: ", "") }
