package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// TestTheTimeOfAnAnswerDoesNotTellWhetherAnIDIsSomebodys: of another's ids and of some that never were, asked for in turn, the
// medians are alike. OWASP API1.
func TestTheTimeOfAnAnswerDoesNotTellWhetherAnIDIsSomebodys(t *testing.T) {
	rounds := shortOrLong(100, 3000)
	r := newRealm(t, "owner", lockEverything, "stranger", lockEverything)
	a, b := r.replicas("--rate-per-principal=0")
	owner, stranger := r.as("owner"), r.as("stranger")
	o := owner.takeAll(a.url, "lock")
	renewed := func(replica string) { // as its owner would meanwhile: what that replica remembers of it must not tell
		owner.want(200, "", http.MethodPut, replica+"/leases/"+o.lock.ID, "")
		owner.want(200, "", http.MethodPut, replica+"/leases/"+o.lease, "")
	}
	for where, replica := range map[string]string{"where it was made": a.url, "elsewhere": b.url} {
		for kind, id := range o.ids() {
			never := tryAll(neverWas(t, id))
			for what, try := range tryAll(id) {
				switch what {
				case "break", "wait", "ask", "follow":
					continue // a break is refused before anything is looked for; the others look first
				}
				var theirs, nobodys []time.Duration
				renewed(replica)
				for range rounds {
					theirs = append(theirs, stranger.timed(try, replica))
					nobodys = append(nobodys, stranger.timed(never[what], replica))
				}
				is, was := median(theirs), median(nobodys)
				t.Logf("%s %s %s: median %v of another's, %v of one that never was", where, what, kind, is, was)
				if apart := max(is-was, was-is); apart > timingSlack && apart > min(is, was)/2 {
					t.Errorf("%s: to %s another's %s takes %v, one that never was %v", where, what, kind, is, was)
				}
			}
		}
	}
	owner.wantHeld(a.url, api.Lock{ID: o.lock.ID})
}

// timingSlack is what a busy machine may put between two medians, and half of the lesser one.
const timingSlack = 40 * time.Microsecond

func (c *caller) timed(try [3]string, replica string) time.Duration {
	c.t.Helper()
	began := time.Now()
	got := c.do(try[0], replica+try[1], try[2])
	took := time.Since(began)
	if got.status != http.StatusNotFound {
		c.t.Fatalf("%v answers %d %s", try[0], got.status, got.body)
	}
	return took
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
