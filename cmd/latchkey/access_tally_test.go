package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

const (
	// heardWithin is how long the replicas may take here to tell each other what somebody has got: three seconds, and what a
	// busy machine adds.
	heardWithin = 5 * time.Second
	// pace is how quickly somebody claims who wants more than there is.
	pace = 500 * time.Millisecond
	// within that time as many are let through at that pace.
	tooManyHere = int(heardWithin / pace)
)

// greed is a principal that wants all it can get, at three replicas in turn.
type greed struct {
	*caller
	t     *testing.T
	urls  []string
	names int
	// all is what it has, and with it at which replica it got it.
	all []got
}

type got struct {
	id string
	at int
}

// replicasOf starts three processes that go by the realm, on one etcd.
func (r *realm) replicasOf(etcd string, args ...string) (all []*replica) {
	r.t.Helper()
	r.write()
	args = append([]string{"--auth-file=" + r.file, "--etcd-endpoints=" + etcd, "--waiting-ttl=5s"}, args...)
	for range replicas {
		all = append(all, startReplica(r.t, args...))
	}
	return all
}

func urlsOf(all []*replica) (urls []string) {
	for _, r := range all {
		urls = append(urls, r.url())
	}
	return urls
}

// claimAt claims a name of its own at a replica, with a TTL that outlasts the test. It reports whether it was let through.
func (g *greed) claimAt(at int, header ...string) bool {
	g.t.Helper()
	g.names++
	body := encoded(g.t, api.LockRequest{Name: fmt.Sprint(g.bearer[len(g.bearer)-8:], "/", g.names), TTLSeconds: 600})
	return g.took(at, g.do(http.MethodPost, g.urls[at]+"/locks", body, header...), "too_many_claims")
}

// took notes what was got, or that it was too much.
func (g *greed) took(at int, answer heard, code string) bool {
	g.t.Helper()
	switch answer.status {
	case http.StatusCreated:
		g.all = append(g.all, got{decoded[struct{ ID string }](g.t, answer.body).ID, at})
		return true
	case http.StatusTooManyRequests:
		if is := decoded[api.Problem](g.t, answer.body).Code; is != code {
			g.t.Fatalf("refused with %s, want %s", is, code)
		}
		return false
	}
	g.t.Fatalf("answers %d %s", answer.status, answer.body)
	return false
}

// quickly takes what is certainly there.
func (g *greed) quickly(n int) {
	g.t.Helper()
	for i := range n {
		if !g.claimAt(i % len(g.urls)) {
			g.t.Fatalf("claim %d of %d was refused", i, n)
		}
	}
}

// takeAll takes in turn what there is, until all replicas refuse.
func (g *greed) takeAll(take func(at int) bool) (n int) {
	g.t.Helper()
	end := time.Now().Add(4 * bound)
	for refused := 0; refused < len(g.urls); time.Sleep(pace) {
		if time.Now().After(end) {
			g.t.Fatalf("after %d it is not refused at all replicas", n)
		}
		if take(n % len(g.urls)) {
			n, refused = n+1, 0
			continue
		}
		refused++
		for at := range g.urls {
			if at != n%len(g.urls) && take(at) {
				n, refused = n+1, 0
			} else if at != n%len(g.urls) {
				refused++
			}
		}
	}
	return n
}

// giveBack ends what it has, each through another replica than it was got, until so many are left.
func (g *greed) giveBack(path string, left int) {
	g.t.Helper()
	for len(g.all) > left {
		last := g.all[len(g.all)-1]
		g.want(http.StatusNoContent, "", http.MethodDelete, g.urls[(last.at+1)%len(g.urls)]+path+last.id, "")
		g.all = g.all[:len(g.all)-1]
	}
}

// again waits until so many are got once more, whichever replica lets them through.
func (g *greed) again(n int, take func(at int) bool) {
	g.t.Helper()
	got := 0
	took := eventually(g.t, 2*heardWithin, fmt.Sprint(n, " more are let through, as there is room for them"), func() bool {
		for at := range g.urls {
			for got < n && take(at) {
				got++
			}
		}
		return got == n
	})
	g.t.Logf("%d were got again after %v", n, took.Round(10*time.Millisecond))
}

// TestClaimsOfAPrincipalAreBoundedAtAllReplicasTogether: three replicas do not give three times as much, and what is given back
// at one makes room at all.
func TestClaimsOfAPrincipalAreBoundedAtAllReplicasTogether(t *testing.T) {
	t.Parallel()
	const most = 30
	r := newRealm(t, "greedy", lockEverything, "modest", lockEverything)
	urls := urlsOf(r.replicasOf(etcdtest.Shared(t).Endpoint(), ownPrefix(t), fmt.Sprint("--max-claims-per-principal=", most)))
	greedy := &greed{caller: r.as("greedy"), t: t, urls: urls}
	modest := &greed{caller: r.as("modest"), t: t, urls: urls}
	take := func(at int) bool { return greedy.claimAt(at) }

	greedy.quickly(most * 2 / 3)
	n := most*2/3 + greedy.takeAll(take)
	t.Logf("%d claims were let through, of %d at three replicas", n, most)
	if n < most || n > most+tooManyHere {
		t.Errorf("%d claims were let through, want %d, and no more than %d", n, most, most+tooManyHere)
	}
	modest.quickly(most / 2)
	for at := range urls {
		if greedy.claimAt(at) {
			t.Errorf("a claim more was let through at replica %d", at)
		}
	}
	greedy.giveBack("/locks/", most-10)
	greedy.again(10, take)
	if n := greedy.takeAll(take); n > tooManyHere {
		t.Errorf("%d more were let through than there was room for, want %d at the most", n, tooManyHere)
	}
	modest.quickly(most / 4)
}

// TestLeasesOfAPrincipalAreBoundedAtAllReplicasTogether in the same way.
func TestLeasesOfAPrincipalAreBoundedAtAllReplicasTogether(t *testing.T) {
	t.Parallel()
	const most = 12
	r := newRealm(t, "greedy", lockEverything, "modest", lockEverything)
	urls := urlsOf(r.replicasOf(etcdtest.Shared(t).Endpoint(), ownPrefix(t), fmt.Sprint("--max-leases-per-principal=", most)))
	greedy := &greed{caller: r.as("greedy"), t: t, urls: urls}
	take := func(at int) bool {
		return greedy.took(at, greedy.do(http.MethodPost, urls[at]+"/leases", `{"ttl_seconds":600}`), "too_many_leases")
	}
	n := greedy.takeAll(take)
	t.Logf("%d leases were let through, of %d at three replicas", n, most)
	if n < most || n > most+tooManyHere {
		t.Errorf("%d leases were let through, want %d, and no more than %d", n, most, most+tooManyHere)
	}
	r.as("modest").want(http.StatusCreated, "", http.MethodPost, urls[0]+"/leases", "{}")
	greedy.giveBack("/leases/", most-6)
	greedy.again(6, take)
}

// TestRepeatsAtOtherReplicasUseUpNothing: neither of claims that are held nor of those that wait, and they pass where there is no
// room for another.
func TestRepeatsAtOtherReplicasUseUpNothing(t *testing.T) {
	t.Parallel()
	const most, keyed = 30, 18
	r := newRealm(t, "careful", lockEverything, "holder", lockEverything)
	urls := urlsOf(r.replicasOf(etcdtest.Shared(t).Endpoint(), ownPrefix(t), fmt.Sprint("--max-claims-per-principal=", most), "--max-wait=60s"))
	careful, holder := &greed{caller: r.as("careful"), t: t, urls: urls}, r.as("holder")
	take := func(at int) bool { return careful.claimAt(at) }
	holder.claim(urls[0], api.LockRequest{Name: "busy", TTLSeconds: 600})
	key := func(i int) []string { return []string{"Idempotency-Key", fmt.Sprint("the key of one claim, ", i)} }
	repeat := func(at, i int) heard {
		t.Helper()
		claim := api.LockRequest{Name: fmt.Sprint("keyed/", i), TTLSeconds: 600}
		if i%2 == 1 {
			claim.Name, claim.Queue = "busy", true
		}
		return careful.do(http.MethodPost, urls[at]+"/locks", encoded(t, claim), key(i)...)
	}
	for i := range keyed {
		repeat(0, i)
	}
	all := func() {
		t.Helper()
		for i := range keyed {
			for at := range urls {
				if again := repeat(at, i); again.header.Get("Idempotent-Replayed") != "true" {
					t.Fatalf("a repeat of claim %d at replica %d answers %d %s", i, at, again.status, again.body)
				}
			}
		}
	}
	for end := time.Now().Add(heardWithin); time.Now().Before(end); time.Sleep(pace) {
		all()
	}
	n := careful.takeAll(func(at int) bool { all(); return take(at) })
	t.Logf("%d more were let through beside %d that were repeated at all replicas, of %d", n, keyed, most)
	if n < most-keyed || n > most-keyed+tooManyHere {
		t.Errorf("%d more were let through, want %d, and no more than %d", n, most-keyed, most-keyed+tooManyHere)
	}
	all() // where there is no room
}

// TestAReplicaTakesItsPartOfTheCountWithIt, soon after it was killed.
func TestAReplicaTakesItsPartOfTheCountWithIt(t *testing.T) {
	t.Parallel()
	const most = 9
	r := newRealm(t, "greedy", lockEverything)
	all := r.replicasOf(etcdtest.Shared(t).Endpoint(), ownPrefix(t), fmt.Sprint("--max-claims-per-principal=", most))
	greedy := &greed{caller: r.as("greedy"), t: t, urls: urlsOf(all)}
	for range most {
		if !greedy.claimAt(0) {
			t.Fatal("what it may have was refused")
		}
	}
	for at := 1; at < replicas; at++ {
		eventually(t, heardWithin, "the others refuse more", func() bool {
			if !greedy.claimAt(at) {
				return true
			}
			last := greedy.all[len(greedy.all)-1]
			greedy.want(http.StatusNoContent, "", http.MethodDelete, greedy.urls[at]+"/locks/"+last.id, "")
			return false
		})
	}
	all[0].kill()
	killed := time.Now()
	for at := 1; at < replicas; at++ {
		eventually(t, bound, "there is room again", func() bool { return greedy.claimAt(at) })
	}
	t.Logf("there was room %v after it was killed", time.Since(killed).Round(10*time.Millisecond))
}

// toldOf is how many claims of somebody the replicas tell of together.
func toldOf(t *testing.T, etcd *clientv3.Client, who string) (n int) {
	t.Helper()
	got, err := etcd.Get(t.Context(), "/latchkey/tallies/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		n += decoded[map[string][2]int](t, strings.TrimPrefix(string(kv.Value), "1"))[who][0]
	}
	return n
}

// TestNothingIsWrittenAtRest: neither where nobody is near a bound nor where somebody is, as long as nothing changes.
func TestNothingIsWrittenAtRest(t *testing.T) {
	t.Parallel()
	const rest = 10 * time.Second
	server := etcdtest.New(t)
	etcd := server.Client(t)
	r := newRealm(t, "modest", lockEverything, "greedy", lockEverything)
	urls := urlsOf(r.replicasOf(server.Endpoint(), "--max-claims-per-principal=160"))
	revision := func() int64 {
		t.Helper()
		got, err := etcd.Get(t.Context(), "/latchkey/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return got.Header.Revision
	}
	rests := func(what string) {
		t.Helper()
		before := revision()
		time.Sleep(rest)
		if after := revision(); after != before {
			t.Errorf("%s: %d writes in %v", what, after-before, rest)
		}
	}
	modest, greedy := &greed{caller: r.as("modest"), t: t, urls: urls}, &greed{caller: r.as("greedy"), t: t, urls: urls}
	modest.quickly(9)
	rests("nobody has much")
	if told := keysUnder(t, etcd, "/latchkey/tallies/"); len(told) != 0 {
		t.Errorf("told: %v", told)
	}
	greedy.quickly(150)
	eventually(t, heardWithin, "all is told", func() bool { return toldOf(t, etcd, "greedy") == 150 })
	rests("somebody has much")
}
