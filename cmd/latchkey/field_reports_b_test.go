package main

// fieldReportsB are the reports about ownership and tokens (C), repeats and proxies (D), waits and connections (E), names
// and the contract (F), abuse and operations (G).
var fieldReportsB = map[string]fieldReport{
	// C
	"B069": {
		guards: "a release said again later takes nothing from whoever holds the name by then, though the etcd key is the same",
		tests: []string{
			"store.TestKeyFindsItsClaimAnywhere", "store.TestOneHolderAtATime", "cmd/latchkey.TestRequestsOfAFormerHolderChangeNothing/released",
		},
	},
	"B071": {
		guards: "only the id of this very claim releases it: not its name, token or key, another's id, or one put together of both",
		tests:  []string{"store.TestOnlyItsOwnIDMovesALock", "store.TestFormerHolderCannotMakeTheNextHoldersID"},
	},
	"B073": {
		guards: "a holder that slept through its TTL neither renews nor releases what its successor holds, at any replica",
		tests: []string{
			"cmd/latchkey.TestRequestsOfAFormerHolderChangeNothing/run out", "store.TestHolderThatStopsRenewingLosesTheLockAfterItsTTL",
			"store.TestLateRenewalByTheLastUserOfALeaseIsRefused",
		},
	},
	"B075": {
		guards: "a release that does nothing answers one documented problem, the same at every replica; without a store it is a 503",
		tests: []string{
			"cmd/latchkey.TestAnswersThatAreNoSayWhyAndNothingOfTheInside", "server.TestProblemsAreThoseOfTheContract",
		},
	},
	"B077": {
		guards: "the release of a lock that ran out is a 404 that says so, neither a fault of the service nor a success",
		tests: []string{
			"cmd/latchkey.TestAnswersThatAreNoSayWhyAndNothingOfTheInside", "store.TestHolderThatStopsRenewingLosesTheLockAfterItsTTL",
		},
	},
	"B079": {
		guards: "what others are told of a holder shows its label and token, never its id; logs, metrics and problems have no id at all",
		tests: []string{
			"cmd/latchkey.TestWhatIsTold/no id", "server.TestSecretsAreNotTold", "server.TestHeldByAnother", "store.TestOneHolderAtATime",
		},
	},
	"B081": {
		guards: "the same key gets the same grant again; another key of the same client is another claim, and waits",
		tests: []string{
			"store.TestAnotherKeyOfTheHolderIsAnotherClaim", "store.TestKeyFindsItsClaimAnywhere", "store.TestManyLocksOnOneLease",
		},
	},
	"B083": {
		guards: "tokens grow through idleness, expiry, compaction, defragmentation, restarts, and the loss of the store",
		tests: []string{
			"store.TestTokensGrowThoughAllThatWasKeptIsGone", "store.TestTokensGrowAcrossWipedStores",
		},
	},
	"B085": {
		guards: "ids are text, and tokens are numbers that doubles hold, whatever etcd's revision was set to",
		tests: []string{
			"cmd/latchkey.TestAnswersLoseNothingInADouble", "store.TestTokensAreNumbersThatEveryReaderHas",
		},
	},
	"B087": {
		guards: "from any number of ids nobody can tell another; a rate limit for those who guess is issue 6",
		tests: []string{
			"store.TestNeighboursOfIDsAreNoIDs", "store.TestFormerHolderCannotMakeTheNextHoldersID", "store.TestGuessableKeyMakesNoGuessableID",
		},
	},

	// D
	"B089": {
		guards: "a write whose reply was lost is done once, however often it is sent, and never meets itself",
		tests: []string{
			"store.TestClaimsWhoseRepliesAreTornOffAreMadeOnce", "store.TestLostReplyOfAClaimIsNotMetAsBusy",
			"store.TestAttemptHeldUpOnItsWayCannotApplyAfterItsRepeat",
		},
	},
	"B091": {
		guards: "a release, or the end of a lease, that finds its own unanswered attempt done is a success",
		tests:  []string{"store.TestLostReplyOfAReleaseIsARelease", "store.TestLostReplyOfTheEndOfALeaseIsItsEnd"},
	},
	"B093": {
		guards: "a key with other parameters is refused, with another name is another claim, and after a release makes a new one",
		tests: []string{
			"store.TestKeyFindsItsClaimAnywhere", "store.TestDigestSeesWhatARepeatMustAskForToo",
			"cmd/latchkey.TestOnACluster/quiet/a claim repeated elsewhere is one claim",
		},
	},
	"B095": {
		guards: "a claim with a key that Go's client sends again by itself is one claim",
		tests:  []string{"cmd/latchkey.TestClaimsSentAgainByTheClientsLibraryAreOne"},
	},
	"B097": {
		guards: "waits end, and streams say something, before common balancers cut a silent line",
		tests: []string{
			"server.TestStreamsOutliveABalancerThatCutsSilentLines", "cmd/latchkey.TestSilenceLongerThanEveryBoundEndsInAGrant",
		},
	},
	"B099": {
		guards: "holders keep their locks and tokens, waiters their places, while all replicas are restarted in turn",
		tests:  []string{"cmd/latchkey.TestOnACluster/holds outlive a rolling restart"},
	},

	// E
	"B100": {
		guards: "no bound of the server's on headers, bodies or writes cuts a wait, a poll or a stream",
		tests: []string{
			"server.TestNoTimeoutCutsAWait", "server.TestTheHTTPServerHasItsBounds", "cmd/latchkey.TestSilenceLongerThanEveryBoundEndsInAGrant",
		},
	},
	"B102": {
		guards: "a body without its end is refused in time and makes no claim; a client that leaves while it waits is noticed",
		tests:  []string{"server.TestBodiesThatNeverEndOrAreTooLarge/no last chunk", "server.TestAClientThatLeavesIsNoticed"},
	},
	"B104": {
		guards: "each event and heartbeat arrives when it is sent, not when the stream ends",
		tests: []string{
			"server.TestSilentStreamsHaveAHeartbeatAndEndWithTheClient", "server.TestHeadersAreSentBeforeAnythingHappens",
			"cmd/latchkey.TestSilenceLongerThanEveryBoundEndsInAGrant",
		},
	},
	"B106": {
		guards: "streams tell proxies not to store and not to hold back; the manual's nginx is configured for them",
		tests: []string{
			"server.TestLockEventsTellQueuedThenHeld", "server.TestStreamsOutliveABalancerThatCutsSilentLines",
			"cmd/latchkey.TestReadmeBalancersAreConfigured",
		},
	},
	"B108": {
		guards: "line breaks in what clients say make no events of theirs",
		tests:  []string{"server.TestTextOfClientsMakesNoEvents"},
	},
	"B110": {
		guards: "waits that were broken off leave nothing that a later request would wait on",
		tests:  []string{"store.TestCancelledWaitsLeaveNothingToWaitOn"},
	},
	"B112": {
		guards: "whoever is refused is told when to come back, and not all the same",
		tests:  []string{"server.TestRetryAfterIsWholeSecondsAndVaries"},
	},
	"B114": {
		guards: "HTTP/1.0 gets its answer, its stream ends with the connection, and a body without a length is none",
		tests: []string{
			"server.TestHTTP10", "server.TestStreamsOverHTTP10EndWithTheConnection", "server.TestHTTP10WithoutALengthIsAnEmptyBody",
		},
	},
	"B116": {
		guards: "a request whose end two readers see in two places is not served, or is the last of its connection",
		tests: []string{
			"server.TestRequestsOfDoubtfulLengthAreRefused", "server.TestNoRequestIsHiddenBehindChunks", "server.TestNoRequestIsHiddenBehindHTTP10",
		},
	},

	// F
	"B118": {
		guards: "what a client escapes is decoded once: names with % and blanks are found as they were written, and no other way",
		tests: []string{
			"cmd/latchkey.TestEveryNameIsALockOfItsOwn", "server.TestListsAreFiltered", "server.TestIDsThatAreNone",
		},
	},
	"B120": {
		guards: "a name and those that begin with it are locks of their own, whichever is held first",
		tests:  []string{"cmd/latchkey.TestEveryNameIsALockOfItsOwn"},
	},
	"B122": {
		guards: "no path is cleaned and no request redirected: what is no path of the contract is a 404",
		tests:  []string{"server.TestUnknownPathsAreNotFoundAndNeverRedirected"},
	},
	"B124": {
		guards: "an empty body is told so where one is needed, and needed nowhere else",
		tests: []string{
			"server.TestEmptyBodyIsToldSo", "server.TestBodiesThatAreRefused/only spaces", "server.TestOperationsWithoutABody",
		},
	},
	"B126": {
		guards: "answers tell durations and no time of day, but HTTP's own, in its format",
		tests:  []string{"server.TestNoTimeOfDayIsTold", "cmd/latchkey.TestWhatIsTold/no time of day"},
	},
	"B128": {
		guards: "a body is checked alike under every spelling of its media type",
		tests:  []string{"server.TestMediaTypes"},
	},
	"B130": {
		guards: "what is not said to be JSON is a 415 and makes no claim",
		tests:  []string{"server.TestMediaTypes"},
	},
	"B132": {
		guards: "a field given twice is refused, however it is spelled and however deep",
		tests: []string{
			"server.TestBodiesThatAreRefused/repeated", "server.TestBodiesThatAreRefused/repeated escaped", "server.TestBodiesThatAreRefused/repeated deeper",
		},
	},
	"B134": {
		guards: "null is no value of any field, and a body that is no object no request",
		tests: []string{
			"server.TestNullIsNoValue", "server.TestBodiesThatAreRefused/null", "server.TestBodiesThatAreRefused/array",
			"server.TestBodiesThatAreRefused/string", "server.TestBodiesThatAreRefused/number", "server.TestBodiesThatAreRefused/no name",
		},
	},
	"B136": {
		guards: "names are compared byte for byte: what only looks alike is two locks, each found as it was written",
		tests:  []string{"cmd/latchkey.TestEveryNameIsALockOfItsOwn"},
	},
	"B138": {
		guards: "a wrong method is a 405 with exactly the right ones in one Allow, an unknown path a 404",
		tests:  []string{"server.TestMethodsAreRefusedWithAllow", "server.TestUnknownPathsAreNotFoundAndNeverRedirected"},
	},
	"B140": {
		guards: "no answer tells what is inside: not of a panic, and not when the store is gone",
		tests:  []string{"server.TestEveryWayOutIsAProblem", "cmd/latchkey.TestAnswersThatAreNoSayWhyAndNothingOfTheInside"},
	},

	// G
	"B142": {
		guards: "of a body that is too large hardly more is read than it takes to see that; who may send one at all is issue 6, and asked after this",
		tests:  []string{"server.TestLargeBodiesAreHardlyRead", "server.TestBodiesThatNeverEndOrAreTooLarge"},
	},
	"B144": {
		guards: "bodies within the size that are dear to read are refused fast and keep nobody waiting",
		tests:  []string{"server.TestDearBodiesDelayNobody", "server.TestManyFaultsHaveAShortAnswer"},
	},
	"B146": {
		guards: "a header that never ends is cut off in time, and connections are bounded, on the one listener there is",
		tests:  []string{"server.TestSlowHeadersAreCutOff", "server.TestTheHTTPServerHasItsBounds", "server.TestConnectionsAreBounded"},
	},
	"B148": {
		guards: "compressed bodies are refused before they are read",
		tests:  []string{"server.TestMediaTypes"},
	},
	"B150": {
		guards: "no path, method, name or client makes a series",
		tests:  []string{"server.TestClientsMakeNoSeries", "cmd/latchkey.TestWhatIsTold/strangers make no series"},
	},
	"B152": {
		guards: "no log line at any level, metric or problem has an id, lease or key, however the request ends and wherever it was put",
		tests: []string{
			"cmd/latchkey.TestWhatIsTold/no id", "server.TestSecretsAreNotTold", "server.TestNamesThatCouldBeSecretsAreNotRepeated",
			"server.TestKeysThatAreRefused",
		},
	},
	"B154": {
		guards: "a user of etcd's that may use the prefix alone serves every call; the manual says with what etcd it is tested",
		tests:  []string{"store.TestUserOfThePrefixAloneServesEveryCall", "store.TestUserLimitedToThePrefixIsEnough"},
	},
	"B156": {
		guards: "etcd's tokens that run out or are made void are got anew, and no wait or request is the worse for it",
		tests:  []string{"store.TestAuthenticationThatRunsOutIsRenewedUnseen", "store.TestLeaderUnderAuthentication"},
	},
	"B158": {
		guards: "a replica that its store does not answer is not ready, though alive, and is ready again by itself",
		tests: []string{
			"cmd/latchkey.TestReplicaWhoseStoreFallsSilentIsNotReady", "store.TestReplicaCutOffTooLongRegistersAnew",
			"cmd/latchkey.TestOnACluster/holds outlive the loss of the quorum",
		},
	},
	"B160": {
		guards: "what is too large for a line to carry is answered in time, and harms nothing that is small",
		tests:  []string{"store.TestLargeRequestsThatNeverArriveHarmNoSmallOnes"},
	},
	"B162": {
		guards: "metadata is shown as it was given, and nothing in it is followed, fetched or worked out",
		tests:  []string{"cmd/latchkey.TestWhatIsTold/what clients show is only shown"},
	},
	"B164": {
		guards: "requests of a former holder, said again by whoever recorded them, do nothing to those after it",
		tests:  []string{"cmd/latchkey.TestRequestsOfAFormerHolderChangeNothing", "cmd/latchkey.TestWhatIsTold/no id"},
	},
	"B166": {
		guards: "what an earlier build left in the store and told its clients is served on; what a later one left is not taken for nothing",
		tests: []string{
			"store.TestStoreOfAnEarlierBuildIsServed", "store.TestValueOfALaterBuildIsNotTakenForNothing", "cmd/latchkey.TestEveryNameIsALockOfItsOwn",
		},
	},
}
