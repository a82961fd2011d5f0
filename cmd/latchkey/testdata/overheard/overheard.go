// Package overheard writes down what the product says, and what it must not say, for secrets_suite_test.go to compare. It is laid
// over the source for that one run, and is in no program that anybody else builds.
package overheard

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// directory is written here by the run: a variable of the environment would not reach every program that a test starts.
const directory = "DIRECTORY"

var notes = struct {
	sync.Mutex
	seed  maphash.Seed
	seen  map[uint64]bool
	files map[string]*os.File
}{seed: maphash.MakeSeed(), seen: map[uint64]bool{}, files: map[string]*os.File{}}

// say notes what was said. Of texts that differ in digits alone, as log lines do in their times, the first is enough: where it
// has no secret, neither have the others.
func say(kind, text string) {
	note(kind, text, strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text))
}

// note writes text down, unless it has what is like it. Nothing is kept back, as programs get killed.
func note(kind, text, like string) {
	key := maphash.String(notes.seed, kind+"\x00"+like)
	notes.Lock()
	defer notes.Unlock()
	if notes.seen[key] {
		return
	}
	notes.seen[key] = true
	file := notes.files[kind]
	if file == nil {
		var err error
		file, err = os.CreateTemp(directory, kind+"@"+filepath.Base(os.Args[0])+"@")
		if err != nil {
			panic(err) // a run that does not listen has found nothing
		}
		notes.files[kind] = file
	}
	if _, err := file.Write(append(binary.AppendUvarint(nil, uint64(len(text))), text...)); err != nil {
		panic(err)
	}
}

// Secret is of the kind, and to be found nowhere.
func Secret(kind, text string) string {
	note("secret "+kind, text, text)
	return text
}

// Request notes what only its sender and we may know.
func Request(header http.Header) {
	for _, key := range header["Idempotency-Key"] {
		Secret("key", key)
	}
	for _, given := range header["Authorization"] {
		if _, credential, has := strings.Cut(given, " "); has {
			given = strings.TrimLeft(credential, " ")
		}
		Secret("credential", given)
	}
}

// Shown is what a client gives for others to see, its own secrets among it if it is foolish.
func Shown(texts ...string) {
	for _, text := range texts {
		note("shown", text, text)
	}
}

func ShownPairs(pairs map[string]string) {
	for k, v := range pairs {
		Shown(k, v)
	}
}

// Problem is an answer that tells of a failure.
func Problem(header http.Header, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	say("problem", fmt.Sprintf("%v %s", header, text))
}

// Event is told to the client of a stream. What becomes of its claim has the claim's id, and only the others must not.
func Event(event string, data []byte) {
	if !slices.Contains([]string{"held", "queued"}, event) {
		say("event", event+" "+string(data))
	}
}

// Sent is what etcd is to keep.
func Sent(ops ...clientv3.Op) {
	for _, op := range ops {
		switch {
		case op.IsTxn():
			_, then, els := op.Txn()
			Sent(then...)
			Sent(els...)
		case op.IsPut():
			Put(string(op.KeyBytes()), string(op.ValueBytes()))
		}
	}
}

func Put(key, value string) { say("etcd", key+" = "+value) }

// Lease is a request for a lease of etcd.
func Lease[R fmt.Stringer](request R) R {
	say("etcd", request.String())
	return request
}

// Registry is asked for all its series, if it can be.
func Registry(r prometheus.Registerer) {
	if from, can := r.(prometheus.Gatherer); can {
		families, _ := from.Gather() // what can be gathered is
		Metrics(families)
	}
}

func Metrics(families []*dto.MetricFamily) {
	for _, family := range families {
		for _, series := range family.Metric {
			say("metric", fmt.Sprintf("%s %s %v", family.GetName(), family.GetHelp(), series.Label))
		}
	}
}

// Logger is l, with everything heard that goes there from debug on, whatever l itself is told of.
func Logger(l *slog.Logger) *slog.Logger {
	if _, is := l.Handler().(listener); is {
		return l
	}
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	return slog.New(listener{l.Handler(), slog.NewTextHandler(lines{}, all), slog.NewJSONHandler(lines{}, all)})
}

type lines struct{}

func (lines) Write(line []byte) (int, error) {
	say("log", string(line))
	return len(line), nil
}

// listener writes down every record in both formats that there are.
type listener struct{ inner, text, json slog.Handler }

func (h listener) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug || h.inner.Enabled(ctx, level)
}

func (h listener) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelDebug {
		_ = h.text.Handle(ctx, r) // lines never fails
		_ = h.json.Handle(ctx, r)
	}
	if !h.inner.Enabled(ctx, r.Level) {
		return nil
	}
	return h.inner.Handle(ctx, r)
}

func (h listener) WithAttrs(attrs []slog.Attr) slog.Handler {
	return listener{h.inner.WithAttrs(attrs), h.text.WithAttrs(attrs), h.json.WithAttrs(attrs)}
}

func (h listener) WithGroup(name string) slog.Handler {
	return listener{h.inner.WithGroup(name), h.text.WithGroup(name), h.json.WithGroup(name)}
}
