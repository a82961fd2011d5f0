// Package store keeps locks in etcd. It is the only package that knows etcd.
//
// # The queue is the state
//
// For a name, etcd holds one key a claim, ordered by create-revision. What a claim may do is a pure function of the
// claims ahead of it: nothing ahead, it may be held. There is no state machine to keep consistent and nothing to repair
// after a crash.
//
//	locks/<name>\x00<nonce>   a claim, queued or held
//	leases/<nonce>            a client's lease
//	broken/<nonce>/<revision> word of a claim that an administrator has broken, for a day
//	replicas/<nonce>          a replica's fence
//	tallies/<replica>         what principals have got through a replica, as far as the others must know
//	epoch                     where tokens start from
//	secret                    what findable nonces and the seals of ids are made with
//
// A queued claim is on a waiting lease of the replica that serves it, a held one on an etcd lease of its own or its
// client's. A held claim is written again only to be moved to another etcd lease.
//
// # What is promised
//
// Grants of a name are totally ordered, in the order in which etcd committed the claims; their fencing tokens strictly
// increase, across replica restarts, etcd failovers, and the loss or restore of etcd (the last with an epoch bump). A
// holder's token never changes. Nobody else is granted the name earlier than one TTL after the last successful renewal
// was sent.
//
// Success means done. ErrUnknown means that nobody can say; every other error means that nothing was done by this call.
//
// What is made on behalf of a principal (owner.go) is its own: for another its id is none.
//
// # What no lock service can promise
//
// Two clients may both believe that they hold: one that was paused does not know it. The resource that the lock protects
// must refuse a token lower than the highest that it has accepted.
//
// # How it is kept
//
//   - Every transaction compares the replica's fence (fence.go). After an unanswered one the fence is put again: nothing
//     sent before can then apply, so one read tells what happened and a repeat is safe.
//   - Grant, adoption, lapse and leaving compare the claim's mod-revision as last seen (grant.go): a belief that has
//     grown old must not undo what another replica did since. Release by id compares the create-revision (release.go).
//   - A decision about a queue is made only on a view that is whole and contains the claim (line.go, queue.go). The
//     answer to one's own transaction does not advance a view.
//   - A renewal counts only with a linearizable read, made after its answer and in the same raft term, that shows the
//     claim standing (renew.go).
//   - A renewal counts only on an etcd lease that was begun in that same term, and what is held on another is moved first
//     (term.go, move.go): a leader that was paused and deposed can end, on waking, what its successor has renewed.
//   - An etcd lease and a nonce are used again only by the replica whose answered transaction removed the claim that had
//     them (pool.go, spare.go), and by one attempt at a time (footing.go). So an id carries a seal that is its claim's
//     alone (id.go).
//   - Transactions travel together (batch.go), but no two that make claims of one name: a token is a revision.
//   - A release grants the next in line in its own transaction, on the same compares as ever (handoff.go).
//   - What makes a claim held compares the epoch (epoch.go); another cluster id or a revision that goes back is another
//     store (sight.go).
package store
