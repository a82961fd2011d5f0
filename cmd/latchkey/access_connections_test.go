package main

import (
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// manyLines are as many as the test wants, or as a process may have open here.
func manyLines(t *testing.T) int {
	t.Helper()
	const wanted, others = 10_000, 1_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < wanted+others {
		return int(limit.Cur) - min(others, int(limit.Cur)/2)
	}
	return wanted
}

// TestThousandsOfIdleConnectionsAreBorne by a replica that may have more of them, and closed when their time is over. OWASP API4.
func TestThousandsOfIdleConnectionsAreBorne(t *testing.T) {
	const headerTimeout = 3 * time.Second
	n := manyLines(t)
	r := startReplica(t, "--data-dir="+t.TempDir()+"/data", "--header-timeout="+headerTimeout.String(), "--max-connections=20000")
	c := newCaller(t, "", nil)
	end := probing(t, r.url())
	began := time.Now()
	lines := idleLines(t, r.url(), n)
	opened := time.Since(began)
	most := 0
	took := eventually(t, headerTimeout+2*slack, "connections that say nothing are closed", func() bool {
		if now, err := strconv.Atoi(metricOf(t, c, r.url(), "latchkey_connections_open")); err == nil {
			most = max(most, now)
			return now < 10 && most > n/2
		}
		return false
	})
	end()
	eventually(t, slack, "every one of them is closed", func() bool { return lines.opened == n && lines.gone() == n })
	t.Logf("%d idle connections, opened in %v; %d open at the most, all closed %v after that", n, opened, most, took)
}

// TestConnectionsAreBounded: more than may be have to wait, or are closed at once where an address has all that it may. The listener
// for administration answers whatever happens at the other. OWASP API4.
func TestConnectionsAreBounded(t *testing.T) {
	const most, tried = 64, 200
	up := func(args ...string) (r *running, administration string) {
		r = serveSome(t, append([]string{"--etcd-endpoints=" + etcdtest.Shared(t).Endpoint(), ownPrefix(t), "--admin-listen=127.0.0.1:0", "--header-timeout=" + arrival.String()}, args...)...)
		return r, r.log.await(t, `administration listens on (http://[^"]+)"`)
	}
	c := newCaller(t, "", nil)
	t.Run("in all", func(t *testing.T) {
		r, administration := up(fmt.Sprint("--max-connections=", most))
		end := probing(t, administration)
		lines := idleLines(t, r.url, tried)
		began := time.Now()
		eventually(t, slack, "as many connections are open as may be", func() bool {
			return metricOf(t, c, administration, "latchkey_connections_open") == strconv.Itoa(most)
		})
		// those who wait get their turn as the others' time is over, and nobody who says nothing keeps them for longer
		eventually(t, 2*tried/most*arrival+slack, "those that wait for a connection get one in the end", func() bool {
			if now, err := strconv.Atoi(metricOf(t, c, administration, "latchkey_connections_open")); err != nil || now > most {
				t.Errorf("%d connections are open (%v), want at most %d", now, err, most)
			}
			return lines.opened == tried && lines.gone() == tried
		})
		end()
		c.want(200, "", http.MethodGet, r.url+"/healthz", "")
		t.Logf("%d connections, of which %d may be open, were all served %v after they came", tried, most, time.Since(began))
	})
	t.Run("of one address", func(t *testing.T) {
		const each = 8
		r, administration := up(fmt.Sprint("--max-connections-per-address=", each))
		end := probing(t, administration)
		lines := idleLines(t, r.url, tried)
		eventually(t, slack, "what one address has too many of is closed at once", func() bool {
			return metricOf(t, c, administration, "latchkey_connections_refused_total") == strconv.Itoa(tried-each) && lines.gone() >= lines.opened-each
		})
		end()
	})
}
