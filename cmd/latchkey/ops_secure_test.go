package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

const (
	etcdUser, etcdPassword = "latchkey", "correct-horse-battery"
	// etcdTokenTTL is so short that every token ends several times in a test.
	etcdTokenTTL = 2 * time.Second
	// leaderAway is longer than an election takes.
	leaderAway = 2 * time.Second
)

// TestOperationsOnASecureCluster is an etcd as the README wants it: TLS with certificates of both sides, and a user that may
// use the prefix and nothing else. Its tokens end again and again, its leader changes, its members restart.
func TestOperationsOnASecureCluster(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	cert, key := ours.issue(t)
	etcd := etcdtest.NewCluster(t, 3, etcdtest.Secure(cert, key, ours.file), etcdtest.JWT(key, etcdTokenTTL))
	if err := etcd.EnableAuth(t.Context(), etcdUser, etcdPassword, "/latchkey/"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(etcdPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ourCert, ourKey := ours.issue(t)
	s := newServiceOn(t, etcd, etcd.SecureEndpoints(), "--etcd-cacert="+ours.file, "--etcd-cert="+ourCert, "--etcd-key="+ourKey,
		"--etcd-username="+etcdUser, "--etcd-password-file="+file)

	s.healthy(t)
	h := newHolders(t, s, "secure")
	waiters := newLine(t, s, h.held[0].lock.Name)
	y := newCyclers(t, s, "secure, in cycles")
	takeInTurnWhile(t, s, newClient(t), "secure, in turn", resumable, func() {
		for range shortOrLong(1, 5) {
			for _, disturb := range []func(){
				func() {}, // the tokens alone
				func() {
					leader := etcd.Leader()
					etcd.Pause(leader)
					settle(leaderAway)
					etcd.Kill(leader)
					etcd.Restart(leader)
				},
			} {
				disturb()
				s.healthy(t)
				settle(2 * etcdTokenTTL)
				y.moving(bound, "clients take locks")
			}
		}
	})
	y.end()
	waiters.keptPlaces()
	h.judge()
	waiters.served()
	for _, r := range s.replicas {
		for _, secret := range []string{etcdPassword, "eyJ"} { // what a token begins with
			if strings.Contains(r.life.Load().log.String(), secret) {
				t.Errorf("a replica's log has %q", secret)
			}
		}
	}
}

// settle lets so much time pass.
func settle(d time.Duration) {
	over := time.NewTimer(d)
	<-over.C
}
