package store

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestFullStoreKeepsWhatIsHeldAcrossAnElection: a full etcd begins no leases, so nothing can be moved. It is renewed where
// it is, and replicas stay, as releases must go on.
func TestFullStoreKeepsWhatIsHeldAcrossAnElection(t *testing.T) {
	a, _, elect := elected(t)
	lock, lease := mustHold(t, a, Claim{Name: "x", TTL: 120 * time.Second}), mustLease(t, a, 120*time.Second)
	status, err := a.etcd.Status(ctxFor(t), a.etcd.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewMaintenanceClient(a.etcd.ActiveConnection()).Alarm(ctxFor(t), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE,
	}); err != nil {
		t.Fatal(err)
	}
	elect()
	r := current(t, a)
	for _, id := range []string{lock.ID, lease.ID} {
		if _, err := a.Renew(ctxFor(t), id, time.Now()); err != nil {
			t.Errorf("renew: %v", err)
		}
	}
	time.Sleep(2 * a.cfg.WaitingTTL) // longer than a registration lasts that is not renewed
	if now := current(t, a); now != r || a.Ready() != nil {
		t.Errorf("the replica has registered anew, or is not ready: %v", a.Ready())
	}
	mustRelease(t, a, lock)
}
