package latchkey

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// LockEvent is what a claim's stream tells. One of its fields is set.
type LockEvent struct {
	Claim *Claim     // its present state: Queued, or Held and then the stream ends
	Lost  *Error     // the claim is gone
	Ended *StreamEnd // the stream ends, the claim may stand: open another
}

// LockEvents asks for a claim by a stream: while it is read it keeps the claim's place, and takes the grant when its turn has
// come. It begins with the present state and ends after Held, Lost or Ended, or with an error: the stream could not be opened,
// or broke. It is not opened again by itself. After Held, renew at once and count from that.
func (c *Client) LockEvents(ctx context.Context, id string) iter.Seq2[LockEvent, error] {
	return func(yield func(LockEvent, error) bool) {
		err := c.stream(ctx, "locks/", id, func(e event) (more bool, err error) {
			var told LockEvent
			switch e.kind {
			case "queued", "held":
				err = json.Unmarshal(e.data, &told.Claim)
			default:
				told.Lost, told.Ended, err = endOfStream(e)
			}
			if err != nil || told == (LockEvent{}) {
				return true, err
			}
			return yield(told, nil) && told.Claim != nil && told.Claim.State == Queued, nil
		})
		if err != nil {
			yield(LockEvent{}, err)
		}
	}
}

// LeaseEvent is what a lease's stream tells. One of its fields is set, and Until.
type LeaseEvent struct {
	Renewed *LeaseRenewed
	Warning *LeaseWarning // renewing has failed, and goes on being tried
	Lost    *Error        // the lease is gone
	Ended   *StreamEnd    // the stream ends, the lease may stand: open another
	// Until is, with Renewed and Warning, when the lease may run out, by the monotonic clock of package time.
	Until time.Time
}

// KeepAlive has the service renew a lease while the stream is read. It takes the id of a lease, or that of a held lock with a
// lease of its own. It ends after Lost or Ended, or with an error: the stream could not be opened, or broke. It is not opened
// again by itself. [Client.Lease] and [Client.Lock] renew on their own, and need no stream.
func (c *Client) KeepAlive(ctx context.Context, id string) iter.Seq2[LeaseEvent, error] {
	return func(yield func(LeaseEvent, error) bool) {
		err := c.stream(ctx, "leases/", id, func(e event) (more bool, err error) {
			var told LeaseEvent
			switch e.kind {
			case "renewed":
				err = json.Unmarshal(e.data, &told.Renewed)
			case "warning":
				err = json.Unmarshal(e.data, &told.Warning)
			default:
				told.Lost, told.Ended, err = endOfStream(e)
			}
			switch {
			case told.Renewed != nil:
				told.Until = until(e.sent, told.Renewed.RenewedAfterMS, told.Renewed.TTLSeconds)
			case told.Warning != nil:
				told.Until = until(e.sent, told.Warning.RenewedAfterMS, told.Warning.TTLSeconds)
			}
			if err != nil || told == (LeaseEvent{}) {
				return true, err
			}
			return yield(told, nil) && told.Lost == nil && told.Ended == nil, nil
		})
		if err != nil {
			yield(LeaseEvent{}, err)
		}
	}
}

func until(sent time.Time, ms, ttlSeconds int64) time.Time {
	return sent.Add(time.Duration(ms)*time.Millisecond + time.Duration(ttlSeconds)*time.Second)
}

// endOfStream reads the last event of a stream; any other that is not known is nothing.
func endOfStream(e event) (lost *Error, ended *StreamEnd, err error) {
	switch e.kind {
	case "lost":
		lost = &Error{Document: e.data}
		err = json.Unmarshal(e.data, &lost.Problem)
	case "ended":
		err = json.Unmarshal(e.data, &ended)
	}
	return lost, ended, err
}
