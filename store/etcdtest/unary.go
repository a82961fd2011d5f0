package etcdtest

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (f *Faults) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	x := f.sent(Call{Method: method, Request: req}, true)
	if x == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	switch x.act {
	case hold:
		if !x.held(ctx) {
			return f.vain(ctx)
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		x.answered(err)
		return err
	case late:
		f.detached(ctx, x, func(ctx context.Context) error {
			if !x.held(ctx) {
				return status.Error(codes.Canceled, "never released")
			}
			ctx, cancel := context.WithTimeout(ctx, lateBound)
			defer cancel()
			return invoke(ctx, method, req, another(reply), cc)
		})
		return f.vain(ctx)
	case drop:
		return f.vain(ctx)
	case loseReply:
		f.detached(ctx, x, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, lateBound)
			defer cancel()
			return invoke(ctx, method, req, another(reply), cc)
		})
		return f.vain(ctx)
	case breakReply:
		x.answered(invoke(ctx, method, req, another(reply), cc, opts...))
		return broken(x.code)
	case holdReply:
		err := invoke(ctx, method, req, reply, cc, opts...)
		x.answered(err)
		if !x.held(ctx) {
			return f.vain(ctx)
		}
		return err
	case slow:
		x.linger(ctx)
		err := invoke(ctx, method, req, reply, cc, opts...)
		x.answered(err)
		x.linger(ctx)
		return err
	default:
		return broken(x.code)
	}
}

// detached makes a call that its caller does not wait for: neither its context nor its reply are the caller's.
func (f *Faults) detached(ctx context.Context, x *Fault, call func(context.Context) error) {
	f.late.Add(1)
	go func() {
		defer f.late.Done()
		x.answered(call(context.WithoutCancel(ctx)))
	}()
}

// vain waits until the caller gives up, as it would for an answer that never comes.
func (f *Faults) vain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-f.ended.Done():
		return broken(codes.Unavailable)
	}
}

func broken(code codes.Code) error { return status.Error(code, "etcdtest: a fault was asked for here") }

func another(reply any) any { return reflect.New(reflect.TypeOf(reply).Elem()).Interface() }
