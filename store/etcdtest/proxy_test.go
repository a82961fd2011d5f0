package etcdtest_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestProxyCutsAndHeals(t *testing.T) {
	t.Parallel()
	p := etcdtest.NewProxy(t, etcdtest.New(t).Endpoint())
	c := p.Client(t)
	put(t, c, t.Name(), "1")
	if p.Conns() == 0 {
		t.Error("no connection went through the proxy")
	}
	p.Cut()
	_, err := c.Put(within(t, brief), t.Name(), "2")
	wantFailed(t, err)
	p.Heal()
	wantValue(t, c, t.Name(), "1")
	p.Reset()
	wantValue(t, c, t.Name(), "1")
}

func TestProxyBlackholeKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	s := etcdtest.New(t)
	p := etcdtest.NewProxy(t, s.Endpoint())
	c, truth := p.Client(t), s.Client(t)
	put(t, c, t.Name(), "1")

	// the answer does not come, yet it was done
	p.Blackhole(etcdtest.ToClient)
	_, err := c.Put(within(t, brief), t.Name(), "2")
	wantCode(t, err, codes.DeadlineExceeded)
	wantValue(t, truth, t.Name(), "2")
	p.Heal()
	wantValue(t, c, t.Name(), "2")

	// the request does not arrive
	p.Blackhole()
	_, err = c.Put(within(t, brief), t.Name(), "3")
	wantCode(t, err, codes.DeadlineExceeded)
	wantValue(t, truth, t.Name(), "2")

	// neither does that of a new connection
	_, err = p.Client(t).Put(within(t, brief), t.Name(), "4")
	wantFailed(t, err)
	wantValue(t, truth, t.Name(), "2")
	p.Heal()
	put(t, c, t.Name(), "5")
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	p := etcdtest.NewProxy(t, etcdtest.New(t).Endpoint())
	c := p.Client(t)
	put(t, c, t.Name(), "1")
	const each = 100 * time.Millisecond
	p.Delay(each)
	start := time.Now()
	put(t, c, t.Name(), "2")
	if took := time.Since(start); took < 2*each {
		t.Errorf("a call took %v, want at least %v", took, 2*each)
	}
}

func TestProxySwallowsAReply(t *testing.T) {
	t.Parallel()
	s := etcdtest.New(t)
	p := etcdtest.NewProxy(t, s.Endpoint())
	c, truth := p.Client(t), s.Client(t)
	put(t, c, t.Name(), "1")
	p.Swallow(1)
	_, err := c.Put(within(t, brief), t.Name(), "2")
	wantFailed(t, err)
	wantValue(t, truth, t.Name(), "2")
	put(t, c, t.Name(), "3")
}

func wantFailed(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("the call went through")
	}
}
