package main

// fault is one that can be made here. One of the service is injected while clients are at work and made good after a
// time; one of a client is an experiment with a promise of its own, on a service that is well.
type fault struct {
	id, what string
	subject  subject
	// inject does it, and returns what exactly was chosen and how to make it good.
	inject func(*world) (how string, heal func())
	client func(*world, *trial)
}

// subject is what a fault befalls. Two faults of one subject do not go together, but on lines.
type subject int

const (
	onClients subject = iota
	onLines
	onMembers
	onReplicas
)

func allFaults() []*fault {
	return []*fault{
		{id: "F1", what: "a holder pauses past its TTL", client: holderPauses},
		{id: "F2", what: "a waiter disappears", client: waiterDisappears},
		{id: "F3", what: "a waiter disappears as it is granted", client: waiterDisappearsAsGranted},
		{id: "F4", what: "a claim is repeated with its key", client: claimIsRepeated},
		{id: "F5", what: "replica killed", subject: onReplicas, inject: replicaKilled},
		{id: "F6", what: "replica stopped", subject: onReplicas, inject: replicaStopped},
		{id: "F7", what: "replica paused", subject: onReplicas, inject: replicaPaused},
		{id: "F8", what: "replica cut off from etcd", subject: onLines, inject: replicaCutOff},
		{id: "F9", what: "replica pinned to a member that fails", subject: onMembers, inject: replicaPinned},
		{id: "F10", what: "leader of etcd killed, paused or moved", subject: onMembers, inject: leaderFails},
		{id: "F11", what: "quorum of etcd lost", subject: onMembers, inject: quorumLost},
		{id: "F12", what: "members of etcd restarted in turn", subject: onMembers, inject: membersRestarted},
		{id: "F13", what: "compaction and defragmentation", subject: onMembers, inject: compactions},
		{id: "F14", what: "etcd without space", subject: onMembers, inject: noSpace},
		{id: "F17", what: "member or replica starved of processor", subject: onReplicas, inject: starved},
		{id: "F18", what: "replies of etcd lost after the commit", subject: onLines, inject: repliesLost},
		{id: "F19", what: "balancer gives up early and repeats", client: balancerIsHasty},
		{id: "F20", what: "many waiters come and go at once", client: manyComeAndGo},
	}
}
