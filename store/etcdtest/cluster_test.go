package etcdtest_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

const recovery = 30 * time.Second

func TestClusterSurvivesAKilledAndAPausedLeader(t *testing.T) {
	t.Parallel()
	c := etcdtest.NewCluster(t, 3)
	client := c.Client(t, nil)
	put(t, client, "a", "1")

	first := c.Leader()
	c.Kill(first)
	if second := c.Leader(); second == first {
		t.Fatalf("member %d leads though it was killed", first)
	}
	put(t, client, "a", "2")
	c.Restart(first)
	if err := c.WaitHealthy(within(t, recovery)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c.Client(t, []string{c.Endpoint(first)}), "a", "2")

	third := c.Leader()
	c.Pause(third)
	_, err := c.Client(t, []string{c.Endpoint(third)}).Get(within(t, brief), "a")
	wantCode(t, err, codes.DeadlineExceeded)
	if fourth := c.Leader(); fourth == third {
		t.Fatalf("member %d leads though it is paused", third)
	}
	c.Resume(third)
	if err := c.WaitHealthy(within(t, recovery)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c.Client(t, []string{c.Endpoint(third)}), "a", "2")
	c.Pause(third) // the end of the test kills a paused member too
}
