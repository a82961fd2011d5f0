package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/latchkey/latchkey/api"
)

// atRest is what the service uses when nobody asks it for anything.
type atRest struct {
	goroutines [replicas]int
	watchers   int
}

// What may be there more than before: lines and goroutines that are about to end.
const (
	spareGoroutines = 40
	warmingLocks    = 48 // more than there are streams for renewals, which last
	spareWatchers   = 4
	restBound       = 2*leastWaitingTTL + actorLongTTL*time.Second + slack
)

// number finds a metric's value.
func (w *world) number(url, metric string) (int, string, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err
	}
	found := regexp.MustCompile(`(?m)^` + metric + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0, "", fmt.Errorf("%s has no metric %s", url, metric)
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	return int(value), string(text), err
}

// rest looks at all replicas and members.
func (w *world) rest() (now atRest) {
	w.t.Helper()
	for r := range w.replicas {
		n, text, err := w.number(w.replicas[r].url(), "go_goroutines")
		if err != nil {
			w.t.Fatal(err)
		}
		now.goroutines[r] = n
		w.secrets.read(text)
	}
	for m := range members {
		n, _, err := w.number("http://"+w.etcd.Endpoint(m), "etcd_debugging_mvcc_watcher_total")
		if err != nil {
			w.t.Fatal(err)
		}
		now.watchers += n
	}
	return now
}

// warm does a little of all, so that what a replica sets up once and keeps is there.
func (w *world) warm() {
	w.t.Helper()
	c := newClient(w.t)
	for r := range replicas {
		url := w.replicas[r].url()
		for i := range warmingLocks {
			a := c.claim(url, "", api.LockRequest{Name: fmt.Sprintf("warm %d.%d", r, i), TTLSeconds: actorLongTTL})
			if !a.held() {
				w.t.Fatalf("a free lock: %v", a)
			}
			c.renew(url, a.lock.ID)
			defer c.release(url, a.lock.ID)
		}
	}
}

// finish asks that nothing is left of all that was done: no claim, no lease, no watch, no goroutine; and that nobody was
// told a secret.
func (w *world) finish() {
	w.t.Helper()
	w.healthy(w.t)
	etcd := w.etcdSaid.client
	for _, kind := range []string{locksInEtcd, "/latchkey/leases/"} {
		eventually(w.t, restBound, "no claim or lease outlives its client by more than its TTL", func() bool {
			return len(keysUnder(w.t, etcd, kind)) == 0
		})
	}
	noEtcdLeaseIsLeft(w.t, w.service, restBound)
	w.comesToRest()
	for r := range w.replicas {
		w.readLog(r)
	}
	for _, text := range w.secrets.told() {
		w.t.Errorf("ids and keys are told to nobody but their owner, but one is in: %s", text)
	}
	for r := range w.replicas {
		w.replicas[r].stop()
	}
	w.etcdSaid.catchUp(w.t)
	w.endings()
	for _, how := range w.etcdSaid.violations() {
		w.t.Errorf("in etcd: %s", how)
	}
}

// comesToRest waits until the service uses no more than it did before all.
func (w *world) comesToRest() {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(lookAgain) {
		now := w.rest()
		more := now.watchers > w.atRest.watchers+spareWatchers
		for r, n := range now.goroutines {
			more = more || n > w.atRest.goroutines[r]+spareGoroutines
		}
		if !more {
			return
		}
		if time.Since(began) > restBound {
			w.t.Errorf("no goroutine and no watch outlives what it was for, but after %v there are %+v, and there were %+v", restBound, now, w.atRest)
			return
		}
	}
}
