package store

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// unansweredAtOnce bounds what is written to a stream and not answered. So much fits in the 64 KiB that gRPC lets a
// sender be ahead of its receiver: a write never waits for etcd to read.
const unansweredAtOnce = 1024

// keepStream is one stream to etcd: a lane's, or one that has been retired, where nothing new is written and which
// ends when nobody waits for its answers. But for ctx, end and wake it is guarded by the keepers' mu.
type keepStream struct {
	k    *keepers
	lane int
	ctx  context.Context
	end  context.CancelFunc
	wake chan struct{}

	begun time.Time
	ready bool
	// queue is what is to be written, in order; unsent finds it by lease.
	queue  []*keepCall
	unsent map[clientv3.LeaseID]*keepCall
	// written is what etcd has not answered, in order; answered is when it last did.
	written  []*keepCall
	answered time.Time
}

// open begins the stream of a lane, without waiting for it.
func (k *keepers) open(lane int) *keepStream {
	s := &keepStream{k: k, lane: lane, wake: make(chan struct{}, 1), begun: time.Now(), unsent: map[clientv3.LeaseID]*keepCall{}}
	s.ctx, s.end = context.WithCancel(k.life)
	k.lanes[lane] = s
	k.streams[s] = struct{}{}
	k.lookBy(s.begun.Add(k.s.perTry()))
	k.work.Go(s.run)
	return s
}

func (s *keepStream) put(c *keepCall) {
	c.on = s
	s.queue = append(s.queue, c)
	s.unsent[c.id] = c
	s.nudge()
}

// nudge tells the writer that there may be something to write.
func (s *keepStream) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run opens the stream, and writes and reads until it is over.
func (s *keepStream) run() {
	stream, err := s.k.s.leases().LeaseKeepAlive(s.ctx)
	if err != nil {
		s.broke(err)
		return
	}
	s.k.mu.Lock()
	s.ready = true
	s.k.mu.Unlock()
	var reading sync.WaitGroup
	reading.Go(func() { s.broke(s.read(stream)) })
	s.write(stream)
	reading.Wait()
}

func (s *keepStream) write(stream pb.Lease_LeaseKeepAliveClient) {
	for {
		c := s.next()
		if c == nil {
			select {
			case <-s.wake:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(c.id)})
		if err != nil && !errors.Is(err, io.EOF) { // of which the reader learns the cause
			s.broke(err)
		}
	}
}

// next is the message to be written now, or nil. From here on nobody joins it.
func (s *keepStream) next() *keepCall {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	for len(s.queue) > 0 && len(s.written) < unansweredAtOnce {
		c := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		if s.unsent[c.id] == c {
			delete(s.unsent, c.id)
		}
		if c.waiting == 0 {
			continue
		}
		c.sent = time.Now()
		if len(s.written) == 0 {
			s.k.lookBy(c.sent.Add(laneSilence))
		}
		s.written = append(s.written, c)
		return c
	}
	return nil
}

func (s *keepStream) read(stream pb.Lease_LeaseKeepAliveClient) error {
	for {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		s.answer(resp)
	}
}

// answer ends the wait for the first message unanswered of that lease. If there is none, it has been asked again on
// another stream, and those who wait there may have asked too late for this answer.
func (s *keepStream) answer(resp *pb.LeaseKeepAliveResponse) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	at := slices.IndexFunc(s.written, func(c *keepCall) bool { return int64(c.id) == resp.ID })
	if at < 0 {
		return
	}
	c := s.written[at]
	if at == 0 {
		s.written[0] = nil
		s.written = s.written[1:]
	} else {
		s.written = slices.Delete(s.written, at, at+1)
	}
	s.answered = time.Now()
	if resp.TTL <= 0 {
		c.finish(kept{}, rpctypes.ErrLeaseNotFound)
	} else {
		c.finish(kept{c.sent, resp.GetHeader().GetRaftTerm(), time.Duration(resp.TTL) * time.Second}, nil)
	}
	if len(s.queue) > 0 {
		s.nudge()
	}
	s.endIfLeft()
}

func (s *keepStream) current() bool { return s.k.lanes[s.lane] == s }

// look retires a stream that has fallen silent, and ends one that does not open or that nobody uses.
func (s *keepStream) look(now time.Time) {
	blocked := len(s.written) > 1 || len(s.written) > 0 && s.current()
	switch {
	case !s.ready:
		s.dueOr(now, s.begun.Add(s.k.s.perTry()), func() { s.over(errNoAnswer) })
	case blocked:
		s.dueOr(now, later(s.answered, s.written[0].sent).Add(laneSilence), s.silent)
	case s.current() && len(s.queue) == 0:
		s.dueOr(now, later(s.answered, s.begun).Add(laneIdle), func() { s.over(errNoAnswer) })
	}
}

// dueOr does what is due, or has it looked at again when it is.
func (s *keepStream) dueOr(now, at time.Time, do func()) {
	if now.Before(at) {
		s.k.lookBy(at)
		return
	}
	do()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// retire takes the lane from the stream and leaves it the first messages written, as many as may stay. All others are
// returned: they are to be asked again.
func (s *keepStream) retire(stay int) []*keepCall {
	if s.current() {
		s.k.lanes[s.lane] = nil
	}
	again := slices.Concat(s.written[stay:], s.queue)
	s.written = slices.Clone(s.written[:stay])
	s.queue, s.unsent = nil, nil
	s.endIfLeft()
	return again
}

// silent retires the stream all but for what blocks it.
func (s *keepStream) silent() {
	again := s.retire(1)
	if s.lane < lanesPerGroup && len(again) > 0 {
		s.k.work.Go(func() { s.k.tellApart(again) })
		return
	}
	for _, c := range again {
		s.k.putAgain(c)
	}
}

// endIfLeft ends a retired stream on whose answers nobody waits.
func (s *keepStream) endIfLeft() {
	if s.current() || slices.ContainsFunc(s.written, func(c *keepCall) bool { return c.waiting > 0 }) {
		return
	}
	s.over(errNoAnswer)
}

// broke ends the stream with what etcd, or the line to it, has ended it with.
func (s *keepStream) broke(err error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.over(rpctypes.Error(err))
}

// over ends the stream. Who waits on it fails with err.
func (s *keepStream) over(err error) {
	if s.current() {
		s.k.lanes[s.lane] = nil
	}
	delete(s.k.streams, s)
	s.end()
	for _, c := range append(s.written, s.queue...) {
		c.finish(kept{}, err)
	}
	s.written, s.queue, s.unsent = nil, nil, nil
}
