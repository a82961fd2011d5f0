package main

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes keeps each write apart.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func (w *writes) check(t *testing.T, when string, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.all, want) {
		t.Errorf("%s: got %.200q, want %.200q", when, w.all, want)
	}
}

func TestLogLinesThatComeTogetherAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got writes
		lines := &logLines{to: &got}
		say := func(line string) {
			if n, err := lines.Write([]byte(line)); n != len(line) || err != nil {
				t.Errorf("%q: got %d, %v", line, n, err)
			}
		}
		say("a")
		say("b")
		say("c")
		got.check(t, "at once", "a")
		time.Sleep(linesApart)
		synctest.Wait()
		got.check(t, "a little later", "a", "bc")
		time.Sleep(linesApart)
		say("d")
		say(strings.Repeat("e", mostTogether))
		say("f")
		lines.flush()
		lines.flush()
		got.check(t, "in the end", "a", "bc", "d", strings.Repeat("e", mostTogether), "f")
	})
}

func TestWarningsDoNotWait(t *testing.T) {
	var got writes
	lines := &logLines{to: &got, written: time.Now().Add(time.Hour)}
	log := slog.New(prompt{(&logFlags{LogFormat: "text", LogLevel: "info"}).logger(lines).Handler(), lines}).With("a", 1).WithGroup("g")
	log.Info("first", "b", 2)
	got.check(t, "before")
	log.Warn("second")
	if len(got.all) != 1 || !strings.Contains(got.all[0], "msg=first a=1 g.b=2\n") || !strings.HasSuffix(got.all[0], "msg=second a=1\n") {
		t.Errorf("got %q", got.all)
	}
}
