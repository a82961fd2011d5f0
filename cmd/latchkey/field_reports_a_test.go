package main

// fieldReportsA are those of leases, TTLs, expiry and renewal (B001 to B033), and of queues, waits and hand-off (B034 to B068).
var fieldReportsA = map[string]fieldReport{
	"B001": {"a waiter that waited for longer than its own TTL is granted the lock with all of it", []string{
		"store.TestGrantAfterAWaitLongerThanItsTTLHasAWholeTTL", "store.TestWaitOnAClientsLeaseIsGrantedWithAWholeTTL",
		"cmd/latchkey.TestFieldReportsOnACluster/the holder's own TTL decides",
	}},
	"B003": {"a waiter whose own claim vanishes is told at once", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a waiter whose claim vanishes is told",
		"store.TestPlaceWhoseKeyVanishesEndsItsWait", "store.TestPlaceThatVanishesUnheardIsNoticedByTheNextList",
	}},
	"B005": {"a TTL is refused or kept as it was told, never raised unseen", []string{
		"store.TestTTLToldIsTheOneThatEtcdKeeps", "store.TestTTLOutOfBoundsIsRefused", "server.TestRangesAreToldWithTheirBounds",
	}},
	"B007": {"numbers that overflow are refused, not wrapped", []string{
		"server.TestNumbersThatOverflowAreRefused", "server.TestBodiesThatAreRefused/ttl many digits",
	}},
	"B009": {"the death of etcd's leader makes a lock run out late within a bound, and never early", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/locks and places outlive members of etcd",
	}},
	"B011": {"whoever renews in time loses no lock to an election", []string{
		"cmd/latchkey.TestOnACluster/holds outlive the etcd leader",
		"cmd/latchkey.TestFieldReportsOnACluster/locks and places outlive members of etcd",
	}},
	"B013": {"what is left of a lease is never negative, and hand-off can be measured", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/many that die at once are no hindrance", "server.TestLeasesAreLookedAt",
		"store.TestLeasesThatRunOutTogetherDelayNoneThatStands",
	}},
	"B015": {"a lock just granted is renewed through any replica and any member of etcd", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/renewals through a follower meet a claim",
		"cmd/latchkey.TestOnACluster/quiet/renewals through another replica meet a claim",
	}},
	"B017": {"a member of etcd is replaced without the loss of a lock", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/locks and places outlive members of etcd",
	}},
	"B019": {"holder, listener and balancer learn that a replica is cut off from etcd in silence", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a replica that etcd does not answer says so",
	}},
	"B021": {"the renewal of what is gone is a 404 and makes nothing", []string{
		"store.TestRenewalOfWhatIsGoneMakesNothing",
		"cmd/latchkey.TestFieldReportsOnACluster/late requests are told alike and nothing of others",
		"cmd/latchkey.TestOnACluster/quiet/a lock that is not renewed goes to the next",
	}},
	"B023": {"no claim is ever in etcd without a lease, though its replica is killed", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/no claim was ever without a lease",
		"cmd/latchkey.TestFieldReportsOnACluster/what a killed replica held runs out",
	}},
	"B025": {"a renewal that succeeds, however late its answer, gave a whole TTL from its sending", []string{
		"store.TestRenewalAnsweredAtTheEndOfTheTTLCountsFromItsSending", "store.TestDeposedLeaderConfirmsNoRenewalOfWhatIsGone",
		"store.TestReplicaPausedBetweenGrantAndAnswerTellsNoStaleHold",
	}},
	"B027": {"what a replica keeps alive it keeps alive again after its line to etcd was broken", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a replica that etcd does not answer says so",
		"store.TestPlacesAreKeptAliveAgainAfterARenewalFailed", "store.TestBrokenStreamIsReplacedByTheNextRenewal",
		"store.TestReplicaCutOffTooLongRegistersAnew",
	}},
	"B029": {"a renewal under way brings no released lock back", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a release wins over a renewal",
		"store.TestLateRenewalByTheLastUserOfALeaseIsRefused",
	}},
	"B031": {"the holder's TTL decides when it runs out, not a waiter's", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/the holder's own TTL decides",
	}},
	"B033": {"late requests are told alike by every replica, and nothing of the next holder", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/late requests are told alike and nothing of others",
		"server.TestProblemsAreThoseOfTheContract",
	}},
	"B034": {"a compaction behind a broken watch ends no wait, and a waiter that leaves then leaves nothing", []string{
		"store.TestWaitsOutliveACompactionBehindABrokenWatch",
	}},
	"B036": {"hand-offs go on under compaction, and a release whose event was lost is noticed", []string{
		"store.TestHandOffsGoOnUnderCompaction", "store.TestMissedEventIsNoticedByALook",
	}},
	"B038": {"a wait goes on through a restart of all members of etcd", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/locks and places outlive members of etcd",
		"cmd/latchkey.TestOnACluster/places outlive the loss of the quorum",
	}},
	"B040": {"releases are noticed though the line that tells of them was starved", []string{
		"store.TestReleasesAreNoticedThoughTheWatchWasStarved",
	}},
	"B042": {"a wait that ends as its turn comes is granted or leaves nothing", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a wait that ends as its turn comes has one outcome",
		"store.TestGrantThatNobodyCanKnowIsTakenBack",
	}},
	"B044": {"a lost reply to the grant of an etcd lease leaves no lease", []string{
		"store.TestLostReplyOfALeaseGrantLeavesNoLease",
	}},
	"B046": {"a client that claims anew while its earlier claim runs out is granted a lock of its own", []string{
		"store.TestClaimAtTheEndOfAnEarlierTTLIsAGrantOfItsOwn", "store.TestReplayStartsTheTTLAgain",
	}},
	"B048": {"a try on a held lock leaves nothing", []string{"store.TestTriesOnABusyNameLeaveNothing"}},
	"B050": {"dead waiters cost the living one bound together, not each", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/the dead give way together",
		"cmd/latchkey.TestOnACluster/quiet/clients that vanish are no hindrance",
	}},
	"B052": {"who repeats itself gains no place", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a repeat gains no place",
		"cmd/latchkey.TestOnACluster/clients take one lock in turn",
	}},
	"B054": {"many that die together are no hindrance to others", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/many that die at once are no hindrance",
		"store.TestLeasesThatRunOutTogetherDelayNoneThatStands",
	}},
	"B056": {"a queue has a bound, is refused at once beyond it, and is no hindrance to other names", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a full queue refuses at once", "store.TestQueueAndReplicaHaveBounds",
	}},
	"B058": {"places that are kept alive fill no log", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/waiters make no noise and leave at once",
	}},
	"B060": {"a lock granted as its client gives up is found by its key, or free within its TTL", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/a wait that ends as its turn comes has one outcome",
		"cmd/latchkey.TestOnACluster/quiet/clients that vanish are no hindrance",
	}},
	"B062": {"a wait has a bound, and one beyond it is refused", []string{
		"server.TestWaitsWithoutAnEndAreRefused", "store.TestWaitThatEndsLeavesNothing",
	}},
	"B064": {"clients that hang up together leave the queue at once", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/waiters make no noise and leave at once",
		"store.TestClientThatLeavesFreesItsPlace",
	}},
	"B066": {"a lock whose holder and replica die together runs out, though the replica is back at once", []string{
		"cmd/latchkey.TestFieldReportsOnACluster/what a killed replica held runs out",
	}},
	"B068": {"a name leaves nothing behind", []string{"store.TestNoNameLeavesAResidue"}},
}
