package etcdtest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

func (f *Faults) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if x := f.sent(Call{Method: method}, false); x != nil {
		switch x.act {
		case fail:
			return nil, broken(x.code)
		case drop:
			return nil, f.vain(ctx)
		case hold, late:
			if !x.held(ctx) {
				return nil, f.vain(ctx)
			}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		cancel(err)
		return nil, err
	}
	return &faultyStream{ClientStream: s, faults: f, method: method, ctx: ctx, cancel: cancel}, nil
}

// faultyStream is a stream whose messages meet faults.
type faultyStream struct {
	grpc.ClientStream
	faults *Faults
	method string
	ctx    context.Context         // ends the stream
	cancel context.CancelCauseFunc // with a status when a fault breaks it
}

func (s *faultyStream) SendMsg(m any) error {
	x := s.faults.sent(Call{Method: s.method, Request: m}, false)
	if x != nil {
		switch x.act {
		case fail:
			return s.end(x)
		case drop:
			return nil
		case hold, late:
			if !x.held(s.ctx) {
				return s.faults.vain(s.ctx)
			}
		}
	}
	return s.ClientStream.SendMsg(m)
}

func (s *faultyStream) RecvMsg(m any) error {
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil {
			s.cancel(nil)
			return s.cause(err)
		}
		x := s.faults.received(Call{Method: s.method, Reply: m})
		if x == nil {
			return nil
		}
		x.answered(nil)
		switch x.act {
		case loseReply:
			continue
		case breakReply:
			return s.end(x)
		case holdReply:
			if !x.held(s.ctx) {
				return s.cause(s.faults.vain(s.ctx))
			}
		case slow:
			x.linger(s.ctx)
		}
		return nil
	}
}

func (s *faultyStream) end(x *Fault) error {
	err := broken(x.code)
	s.cancel(err)
	return err
}

// cause returns the fault that broke the stream, if one did, else what etcd or the caller ended it with.
func (s *faultyStream) cause(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		if _, ours := status.FromError(cause); ours {
			return cause
		}
	}
	return err
}
