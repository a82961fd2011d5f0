package server

import (
	"strings"
	"testing"
	"time"
)

// What a client says too early under TLS is no reason to serve it otherwise, however long it then waits.
func TestAClientThatSaysMoreAndStaysIsServedUnderTLS(t *testing.T) {
	for name, c := range map[string]struct {
		early, later string
		status       int
	}{
		"one byte":       {"\n", healthz, 200},
		"pipelined":      {healthz, "", 200},
		"half a request": {healthz[:8], healthz[8:], 200},
		"large":          {"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat(" ", 20000), "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, waiting, grant, left := waits(t)
			ts, a := serveTLS(t, fake)
			conn := dialTLS(t, ts, a.client())
			say(t, conn, waitingClaim)
			receive(t, "the claim", waiting)
			say(t, conn, c.early)
			select {
			case err := <-left:
				t.Fatalf("the client is taken for gone: %v", err)
			case <-time.After(3 * lookEvery):
			}
			close(grant)
			expectAnswer(t, conn.reader, 201)
			say(t, conn, c.later)
			expectAnswer(t, conn.reader, c.status)
		})
	}
}

// Several requests in a row on one connection, each said while the one before it waits: the read that net/http breaks off
// for each answer loses nothing of TLS.
func TestPipelinedClaimsAreAnsweredInOrderUnderTLS(t *testing.T) {
	fake, waiting, grant, _ := waits(t)
	ts, a := serveTLS(t, fake)
	conn := dialTLS(t, ts, a.client())
	for i := range 20 {
		say(t, conn, waitingClaim)
		if i%2 == 0 { // else nothing is read ahead
			receive(t, "a claim", waiting)
			grant <- struct{}{}
			expectAnswer(t, conn.reader, 201)
			continue
		}
		receive(t, "a claim", waiting)
		say(t, conn, waitingClaim)
		grant <- struct{}{}
		expectAnswer(t, conn.reader, 201)
		receive(t, "the claim after it", waiting)
		grant <- struct{}{}
		expectAnswer(t, conn.reader, 201)
	}
}
