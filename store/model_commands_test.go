package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

var (
	modelNames   = []string{"a", "ab", "a/b"} // each a prefix of another, or nearly
	modelHolders = []string{"one", "two"}
	modelKeys    = []string{"the key of client one", "the key of client two"}
)

// modelBrief is a wait in which nothing comes.
const modelBrief = 5 * time.Millisecond

func (r *modelRig) commands() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"claim":          r.claim,
		"claim by key":   r.claimByKey,
		"claim on lease": r.claimOnLease,
		"not written":    r.claimUnwritten,
		"ask":            r.ask,
		"look":           r.look,
		"list":           r.list,
		"release":        r.release,
		"leave":          r.leave,
		"renew":          r.renew,
		"lease":          r.newLease,
		"look at lease":  r.getLease,
		"end lease":      r.endLease,
		"run out":        r.runOut,
		"upset":          r.upset,
	}
}

func drawn[T any](t *rapid.T, what string, from []T) T { return rapid.SampledFrom(from).Draw(t, what) }

func (r *modelRig) replica(t *rapid.T) int {
	return rapid.IntRange(0, modelReplicas-1).Draw(t, "replica")
}

func (r *modelRig) wish(t *rapid.T) modelWish {
	return modelWish{name: drawn(t, "name", modelNames), ttl: drawn(t, "ttl", modelTTLs), holder: drawn(t, "holder", modelHolders)}
}

func (r *modelRig) claim(t *rapid.T) { r.place(t, r.wish(t)) }

// claimByKey mostly asks for what the key stands for already.
func (r *modelRig) claimByKey(t *rapid.T) {
	wish := r.wish(t)
	wish.key = drawn(t, "key", modelKeys)
	if rapid.IntRange(0, 3).Draw(t, "otherwise") != 0 {
		wish.ttl, wish.holder = modelTTLs[0], modelHolders[0]
	}
	if len(r.leases) > 0 && rapid.IntRange(0, 3).Draw(t, "on a lease") == 0 {
		wish.lease, wish.ttl = drawn(t, "lease", r.leases), 0
	}
	r.place(t, wish)
}

func (r *modelRig) claimOnLease(t *rapid.T) {
	if len(r.leases) == 0 {
		t.Skip("no lease yet")
	}
	wish := r.wish(t)
	wish.lease, wish.ttl = drawn(t, "lease", r.leases), 0
	r.place(t, wish)
}

// place claims, and lets a claim that has to wait go on waiting in the background.
func (r *modelRig) place(t *rapid.T, wish modelWish) {
	at, keep := r.replica(t), rapid.Bool().Draw(t, "queue")
	wait := drawn(t, "wait", []modelPatience{noWait, briefWait, longWait})
	outcomes := r.world.place(at, wish, wait, keep)
	c := r.request(wish, keep)
	if c.Wait = within; wait == noWait || wait == briefWait && !grants(outcomes) {
		c.Wait = time.Duration(wait) * modelBrief
	}
	s := r.stores[at]
	r.send(t, outcomes, func(ctx context.Context) (Lock, error) { return s.Claim(ctx, c) })
}

func grants(outcomes []modelOutcome) bool { return outcomes[0].answer.what == isHeld }

func (r *modelRig) request(wish modelWish, keep bool) Claim {
	return Claim{
		Name: wish.name, TTL: wish.ttl, LeaseID: r.ids[wish.lease], Key: wish.key, Queue: keep, Arrived: time.Now(),
		Holder: wish.holder, Metadata: map[string]string{"of": wish.holder},
	}
}

// send makes a request that answers a lock, in the background if it has to wait.
func (r *modelRig) send(t *rapid.T, outcomes []modelOutcome, call func(context.Context) (Lock, error)) {
	if a := outcomes[0].answer; a.what == isWaiting {
		r.background(outcomes[0].world.made, a.replayed, call)
		r.goOn(t, outcomes[0], Lock{})
		return
	}
	ctx, cancel := modelBound()
	defer cancel()
	l, err := call(ctx)
	r.took(t, outcomes, l, err)
}

// claimUnwritten is a claim whose answer cannot be written.
func (r *modelRig) claimUnwritten(t *rapid.T) {
	at, keep, wish := r.replica(t), rapid.Bool().Draw(t, "queue"), r.wish(t)
	if rapid.Bool().Draw(t, "with a key") {
		wish.key = drawn(t, "key", modelKeys)
	}
	ctx, cancel := modelBound()
	defer cancel()
	l, err := r.stores[at].Claim(ctx, r.request(wish, keep))
	r.took(t, r.world.place(at, wish, noWait, keep), l, err)
	if err == nil {
		no := r.numbers[l.ID]
		r.stores[at].Untold(l)
		r.did(t, r.world.unwritten(no), nil)
	}
}

func (r *modelRig) ask(t *rapid.T) {
	no, id := r.id(t, func(c *modelClaim) bool { return c.told })
	at, wait := r.replica(t), drawn(t, "wait", []modelPatience{noWait, briefWait, longWait})
	outcomes := r.world.ask(at, no, wait)
	patience := within
	if wait == noWait || wait == briefWait && !grants(outcomes) {
		patience = time.Duration(wait) * modelBrief
	}
	s, arrived := r.stores[at], time.Now()
	r.send(t, outcomes, func(ctx context.Context) (Lock, error) { return s.Ask(ctx, id, patience, arrived) })
}

func (r *modelRig) look(t *rapid.T) {
	no, id := r.id(t, anyClaim)
	ctx, cancel := modelBound()
	defer cancel()
	l, err := r.stores[r.replica(t)].Look(ctx, id)
	o := r.world.but()
	r.took(t, o.answered(r.world.look(no)), l, err)
}

func anyClaim(*modelClaim) bool { return true }

// forged is the number of what is no id of this store's.
const forged = -1

// id is that of a claim which stands, if it will do, of one that is gone, or of none at all.
func (r *modelRig) id(t *rapid.T, will func(*modelClaim) bool) (no int, id string) {
	var stand, gone []int
	for _, no := range r.claims {
		if c, _ := r.world.claim(no); c == nil {
			gone = append(gone, no)
		} else if will(c) {
			stand = append(stand, no)
		}
	}
	kind := drawn(t, "id", []string{"standing", "standing", "standing", "gone", "forged"})
	switch {
	case kind == "standing" && len(stand) > 0:
		no = drawn(t, "claim", stand)
	case kind != "forged" && len(gone) > 0:
		no = drawn(t, "claim", gone)
	default:
		return forged, r.forge(t)
	}
	return no, r.ids[no]
}

// forge makes an id that is like one, but is none that this store has told.
func (r *modelRig) forge(t *rapid.T) string {
	how := drawn(t, "forgery", []string{"foreign", "later", "other name", "spelling"})
	if how == "foreign" || len(r.claims) == 0 {
		return r.foreign
	}
	text := r.ids[drawn(t, "of claim", r.claims)]
	id, ok := parseLockID(text)
	if !ok {
		t.Fatal("an id of the store's own cannot be read")
	}
	switch how {
	case "later":
		id.revision++
	case "other name":
		id.name += "/"
	default:
		return text + "="
	}
	return id.String()
}

func (r *modelRig) release(t *rapid.T) {
	no, id := r.id(t, anyClaim)
	ctx, cancel := modelBound()
	defer cancel()
	if rapid.IntRange(0, 3).Draw(t, "by ending its lease") != 0 {
		r.did(t, r.world.release(no), r.stores[r.replica(t)].Release(ctx, id))
		return
	}
	outcomes := r.world.release(no)
	if a := r.world.leaseOf(no); a.what == isFailed {
		outcomes = r.world.but().answered(a)
	}
	r.did(t, outcomes, r.stores[r.replica(t)].EndLease(ctx, id))
}

// leave lets a client that waits go.
func (r *modelRig) leave(t *rapid.T) {
	waits := r.world.waits()
	if len(waits) == 0 {
		t.Skip("nobody waits")
	}
	wait := drawn(t, "wait", waits)
	r.pending[wait.no].leave()
	r.did(t, r.world.leave(wait.no), nil)
}

// list goes through a list page by page.
func (r *modelRig) list(t *rapid.T) {
	f := Filter{Limit: rapid.IntRange(1, 4).Draw(t, "limit")}
	switch drawn(t, "filter", []string{"all", "name", "prefix"}) {
	case "name":
		f.Name = drawn(t, "name", modelNames)
	case "prefix":
		f.Prefix = drawn(t, "prefix", modelNames)
	}
	if rapid.Bool().Draw(t, "by state") {
		state := drawn(t, "state", []State{Queued, Held})
		f.State = &state
	}
	ctx, cancel := modelBound()
	defer cancel()
	var got []Lock
	for s := r.stores[r.replica(t)]; ; {
		page, err := s.List(ctx, f)
		if err != nil || len(page.Locks) > f.Limit {
			t.Fatalf("a page of %d has %d, %v", f.Limit, len(page.Locks), err)
		}
		got = append(got, page.Locks...)
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	want := r.world.list(f)
	if len(got) != len(want) {
		t.Fatalf("the list has %d locks, want %d", len(got), len(want))
	}
	for i, l := range got {
		if fault := r.lockDiffers(r.world, want[i], l); fault != "" {
			t.Fatalf("in the list: %s", fault)
		}
	}
}

// list is what a list shows, by name and then in queue order.
func (w modelWorld) list(f Filter) (list []modelAnswer) {
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		if f.Name != "" && name != f.Name || !strings.HasPrefix(name, f.Prefix) {
			continue
		}
		for _, c := range w.queues[name] {
			a := w.look(c.no)
			if f.State == nil || (*f.State == Held) == c.held {
				list = append(list, a)
			}
		}
	}
	return list
}
