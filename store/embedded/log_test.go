package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestZapLogger(t *testing.T) {
	for name, tt := range map[string]struct {
		at   slog.Level
		log  func(*zap.Logger)
		want string
	}{
		"a warning stays one": {slog.LevelInfo,
			func(l *zap.Logger) { l.Warn("slow", zap.Duration("took", time.Second), zap.Int("tries", 2)) },
			"level=WARN msg=slow took=1s tries=2\n"},
		"an error stays one": {slog.LevelInfo,
			func(l *zap.Logger) { l.Error("broke", zap.Error(errors.New("why"))) },
			"level=ERROR msg=broke error=why\n"},
		"news is not told":                   {slog.LevelInfo, func(l *zap.Logger) { l.Info("news") }, ""},
		"news is for debugging":              {slog.LevelDebug, func(l *zap.Logger) { l.Info("news") }, "level=DEBUG msg=news\n"},
		"debugging is lower still":           {slog.LevelDebug, func(l *zap.Logger) { l.Debug("detail") }, ""},
		"one line a failed call is too many": {slog.LevelInfo, func(l *zap.Logger) { l.Warn("retrying of unary invoker failed") }, ""},
		"fields of a logger": {slog.LevelInfo,
			func(l *zap.Logger) { l.With(zap.String("who", "raft"), zap.String("key", "k")).Warn("w") },
			"level=WARN msg=w who=raft\n"},
		"keys and values are left out": {slog.LevelInfo,
			func(l *zap.Logger) {
				l.Warn("apply request took too long", zap.String("request", "put k"), zap.String("response", "v"), zap.String("took", "2s"))
			},
			"level=WARN msg=\"apply request took too long\" took=2s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tt.log(ZapLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: tt.at}))))
			_, got, _ := strings.Cut(out.String(), " ") // after the time
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
