package embedded

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ZapLogger lets etcd's server and client log through l. Their warnings and errors stay what they are, their news is for
// debugging, and what they say of keys and values is left out: the keys hold what only the owner of a lock may know.
func ZapLogger(l *slog.Logger) *zap.Logger { return zap.New(&core{l.Handler()}) }

// belowDebug is where etcd's own debugging goes.
const belowDebug = slog.LevelDebug - 4

// secret are the fields in which etcd quotes requests, keys and values.
var secret = map[string]bool{
	"request": true, "response": true, "request content": true, "request key": true,
	"key": true, "end": true, "range-end": true, "prefix": true, "detail": true, "step": true, "steps": true,
}

// quiet are warnings and errors for debugging only: about ports and users, which the embedded server has none of, and one for every
// single call that fails or stream that cannot be opened, whose caller tells of it too.
var quiet = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
	"retrying of unary invoker failed":                                                     true,
	"clientv3/retry_interceptor: getToken failed":                                          true,
}

// core is a zapcore.Core that writes to a slog.Handler.
type core struct{ handler slog.Handler }

func (c *core) Enabled(l zapcore.Level) bool { return c.enabled(level(l)) }

func (c *core) enabled(l slog.Level) bool { return c.handler.Enabled(context.Background(), l) }

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.handler.WithAttrs(attrs(fields))}
}

func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.enabled(levelOf(e)) {
		return to
	}
	return to.AddCore(e, c)
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, levelOf(e), e.Message, 0)
	r.AddAttrs(attrs(fields)...)
	return c.handler.Handle(context.Background(), r)
}

func (c *core) Sync() error { return nil }

func levelOf(e zapcore.Entry) slog.Level {
	if quiet[e.Message] {
		return slog.LevelDebug
	}
	return level(e.Level)
}

func level(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.InfoLevel:
		return slog.LevelDebug
	default:
		return belowDebug
	}
}

func attrs(fields []zapcore.Field) []slog.Attr {
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		if secret[f.Key] {
			continue
		}
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}
