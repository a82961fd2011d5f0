package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// inside are words of what is behind the service, which no answer has.
var inside = []string{"etcd", "grpc", "rpc error", "127.0.0.1", "goroutine", ".go:", "/latchkey/", "connection", "refused", "context deadline", "transport"}

// A release that does nothing says why, the same at every replica and every time: there is no such lock, whether it was
// released, ran out or never was; or it is not known, when the store does not answer. And no answer tells what the store
// is.
func TestAnswersThatAreNoSayWhyAndNothingOfTheInside(t *testing.T) {
	t.Parallel()
	const bounded = time.Second
	etcd := etcdtest.New(t)
	args := []string{"--etcd-endpoints=" + etcd.Endpoint(), "--request-timeout=" + bounded.String()}
	a, b := serve(t, args...), serve(t, args...)
	c := newClient(t)
	claim := func(name string, ttl int64) api.Lock {
		t.Helper()
		got := c.claim(a.url, "", api.LockRequest{Name: name, TTLSeconds: ttl})
		if !got.held() {
			t.Fatalf("a free lock: %v", got)
		}
		return got.lock
	}
	released, ranOut, held := claim("released", 60), claim("ran out", 1), claim("held", 60)
	if got := c.release(b.url, released.ID); got.status != http.StatusNoContent {
		t.Fatalf("release: %v", got)
	}
	wait := c.claim(b.url, "", api.LockRequest{Name: "ran out", WaitSeconds: 20})
	if !wait.held() {
		t.Fatalf("it does not run out: %v", wait)
	}
	altered := []byte(held.ID)
	altered[30] ^= 1 // of its seal
	gone := map[string]string{
		"released": released.ID, "ran out": ranOut.ID, "altered": string(altered), "no id": "nothing-of-ours", "escaped": "%20",
	}
	first := hear(t, http.MethodDelete, a.url+"/locks/"+released.ID, "")
	for what, id := range gone {
		for _, r := range []*running{a, b, a} {
			got := hear(t, http.MethodDelete, r.url+"/locks/"+id, "")
			if got.status != http.StatusNotFound || got.body != first.body || !strings.Contains(got.body, `"code":"lock_not_found"`) {
				t.Errorf("%s: the release answers %d %s, want what it answered first: %s", what, got.status, got.body, first.body)
			}
		}
	}
	if !strings.Contains(first.body, "released, ran out") {
		t.Errorf("it does not say what may be the reason: %s", first.body)
	}
	if got := c.look(b.url, held.ID); !got.held() {
		t.Errorf("the lock of another: %v", got)
	}

	etcd.Stop()
	var all sync.WaitGroup
	for _, r := range []*running{a, b} {
		for _, say := range [][3]string{
			{http.MethodPost, "/locks", `{"name":"free"}`}, {http.MethodPost, "/locks", `{"name":"held","wait_seconds":20}`},
			{http.MethodPost, "/locks", `{"name":"held","queue":true}`}, {http.MethodGet, "/locks", ""}, {http.MethodGet, "/locks?name=held", ""},
			{http.MethodGet, "/locks/" + held.ID, ""}, {http.MethodGet, "/locks/" + held.ID + "?wait_seconds=20", ""},
			{http.MethodGet, "/locks/" + held.ID + "/events", ""}, {http.MethodDelete, "/locks/" + held.ID, ""},
			{http.MethodDelete, "/locks/" + released.ID, ""}, {http.MethodPost, "/leases", `{}`}, {http.MethodPut, "/leases/" + held.ID, ""},
			{http.MethodGet, "/leases/" + held.ID, ""}, {http.MethodDelete, "/leases/" + held.ID, ""},
			{http.MethodGet, "/leases/" + held.ID + "/keepalive", ""}, {http.MethodGet, "/nowhere", ""}, {http.MethodPost, "/locks", `{`},
		} {
			all.Go(func() {
				began := time.Now()
				got, err := tryToHear(t.Context(), say[0], r.url+say[1], say[2], "Idempotency-Key", "an-idempotency-key")
				if err != nil {
					t.Error(err)
					return
				}
				took := time.Since(began)
				what, _, _ := strings.Cut(say[1], held.ID)
				refused := say[1] == "/nowhere" || say[2] == "{"
				certain := strings.Contains(got.body, `"code":"unavailable"`) || strings.Contains(got.body, `"code":"outcome_unknown"`)
				if !refused && (got.status != http.StatusServiceUnavailable || !certain || got.header.Get("Retry-After") == "") {
					t.Errorf("without a store %s %s answers %d %s", say[0], what, got.status, got.body)
				}
				if took > bounded+slack/2 {
					t.Errorf("without a store %s %s was answered after %v", say[0], what, took)
				}
				wantNothingInside(t, got)
			})
		}
	}
	all.Wait()
	for _, r := range []*running{a, b} {
		eventually(t, slack, "without a store a replica is not ready", func() bool {
			got := hear(t, http.MethodGet, r.url+"/readyz", "")
			wantNothingInside(t, got)
			return got.status == http.StatusServiceUnavailable
		})
	}
}

// wantNothingInside reads an answer for words of the inside, its headers too.
func wantNothingInside(t *testing.T, got heard) {
	t.Helper()
	text := got.body
	for name, values := range got.header {
		text += "\n" + name + ": " + strings.Join(values, ", ")
	}
	text = strings.ReplaceAll(text, "Connection: close", "")
	if i := slices.IndexFunc(inside, func(word string) bool { return strings.Contains(text, word) }); i >= 0 {
		t.Errorf("an answer tells of %q: %s", inside[i], text)
	}
}

// A replica whose store says nothing any more, on lines that stay open, is not ready though it is alive; and mends itself.
func TestReplicaWhoseStoreFallsSilentIsNotReady(t *testing.T) {
	t.Parallel()
	const promised = 10 * time.Second
	proxy := etcdtest.NewProxy(t, etcdtest.Shared(t).Endpoint())
	r := serve(t, "--etcd-endpoints="+proxy.Addr(), ownPrefix(t), "--request-timeout=1s")
	ready := func(status int) func() bool {
		return func() bool { return hear(t, http.MethodGet, r.url+"/readyz", "").status == status }
	}
	eventually(t, promised, "a replica that serves is ready", ready(http.StatusOK))
	proxy.Blackhole()
	took := eventually(t, promised+slack, "a replica whose store is silent is not ready", ready(http.StatusServiceUnavailable))
	for _, path := range []string{"/healthz", "/metrics"} {
		if got := hear(t, http.MethodGet, r.url+path, ""); got.status != http.StatusOK {
			t.Errorf("with a silent store %s answers %d %s", path, got.status, got.body)
		}
	}
	proxy.Heal()
	back := eventually(t, promised+slack, "a replica is ready again once its store is", ready(http.StatusOK))
	acquire(t, r, "after")
	t.Logf("not ready after %v, ready again after %v", took, back)
}
