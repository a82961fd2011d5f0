package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// MaxLimit bounds a page.
const MaxLimit = 1000

// listReads bounds the reads that one page may cost. A page that finds little by then is short, and has a next.
const listReads = 8

// emptyReads bounds those, besides, that find nothing, of a principal with many ranges of names.
const emptyReads = 32

// List shows who holds and who waits, by name and then in queue order. A claim that stands throughout is listed once,
// whatever comes and goes meanwhile. It fails with ErrBadCursor, an *InputError or ErrUnavailable.
func (s *Store) List(ctx context.Context, f Filter) (Page, error) {
	p, err := s.newPager(f)
	if err != nil {
		return Page{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestBound)
	defer cancel()
	return p.run(ctx)
}

// pager makes one page. Within a name claims are ordered by create-revision, but their keys are not: so a name is
// always read whole.
type pager struct {
	s *Store
	f Filter
	// from and to are the range of keys that is read next, name the first in it; later are those after it.
	from, to, name string
	later          []keyRange
	after          cursor
	page           Page
}

func (s *Store) newPager(f Filter) (*pager, error) {
	if f.Limit < 1 || f.Limit > MaxLimit {
		return nil, &InputError{"Limit", fmt.Sprintf("must be from 1 to %d", MaxLimit)}
	}
	k := s.keys
	p := &pager{s: s, f: f, from: k.locks(), to: clientv3.GetPrefixRangeEnd(k.locks())}
	switch {
	case f.Name != "":
		if err := checkName(f.Name); err != nil {
			return nil, err
		}
		p.from, p.to = k.queue(f.Name), k.queueEnd(f.Name)
	case f.Prefix != "":
		if len(f.Prefix) > MaxNameBytes || hasControl(f.Prefix) {
			return nil, &InputError{"Prefix", fmt.Sprintf("must be at most %d bytes without control characters", MaxNameBytes)}
		}
		p.from, p.to = k.locks()+f.Prefix, clientv3.GetPrefixRangeEnd(k.locks()+f.Prefix)
	}
	if f.Cursor != "" {
		var ok bool
		if p.after, ok = parseCursor(f.Cursor); !ok {
			return nil, ErrBadCursor
		}
		if at := k.queue(p.after.name); at < p.from || at >= p.to {
			return nil, ErrBadCursor
		}
		p.from = k.queue(p.after.name)
	}
	if f.Within != nil {
		p.later = clip(keyRange{from: p.from, to: p.to}, k.rangesOf(f.Within))
		p.from, p.to = "", ""
		p.nextRange()
	}
	return p, nil
}

// nextRange goes on with the next range of names, and reports whether there is one.
func (p *pager) nextRange() bool {
	if len(p.later) == 0 {
		return false
	}
	p.from, p.to, p.name, p.later = p.later[0].from, p.later[0].to, p.later[0].name, p.later[1:]
	return true
}

func (p *pager) run(ctx context.Context) (Page, error) {
	if p.from == "" {
		return p.page, nil
	}
	empty := 0
	for reads := 0; reads < listReads; {
		kvs, more, err := p.chunk(ctx)
		if err != nil {
			return Page{}, err
		}
		full, err := p.add(kvs)
		if err != nil {
			return Page{}, err
		}
		switch {
		case full:
			p.page.Next = p.after.String()
			return p.page, nil
		case !more && !p.nextRange():
			return p.page, nil
		}
		switch {
		case len(kvs) > 0:
			reads++
		case empty == emptyReads:
			p.after = cursor{name: p.name}
			reads = listReads
		default:
			empty++
		}
	}
	p.page.Next = p.after.String()
	return p.page, nil
}

// chunk reads the next keys, whole names only.
func (p *pager) chunk(ctx context.Context) ([]*mvccpb.KeyValue, bool, error) {
	want := int64(p.f.Limit + 1)
	got, err := p.s.read(ctx, clientv3.OpGet(p.from, clientv3.WithRange(p.to), clientv3.WithLimit(want)))
	if err != nil {
		return nil, false, err
	}
	kvs, more := got.ranges[0].Kvs, got.ranges[0].More
	if !more {
		return kvs, false, nil
	}
	last, _, err := p.s.keys.split(string(kvs[len(kvs)-1].Key))
	if err != nil {
		return nil, false, err
	}
	begin, end := p.s.keys.queue(last), p.s.keys.queueEnd(last)
	got, err = p.s.read(ctx, clientv3.OpGet(begin, clientv3.WithRange(end)))
	if err != nil {
		return nil, false, err
	}
	cut := slices.IndexFunc(kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) >= begin })
	p.from = end
	return append(kvs[:cut], got.ranges[0].Kvs...), true, nil
}

// add adds the claims of whole names to the page, and reports whether it is full. What is after the cursor counts.
func (p *pager) add(kvs []*mvccpb.KeyValue) (full bool, err error) {
	for len(kvs) > 0 {
		name, _, err := p.s.keys.split(string(kvs[0].Key))
		if err != nil {
			return false, err
		}
		end := p.s.keys.queueEnd(name)
		n := slices.IndexFunc(kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) >= end })
		if n < 0 {
			n = len(kvs)
		}
		if full, err := p.addName(name, kvs[:n]); full || err != nil {
			return full, err
		}
		kvs = kvs[n:]
	}
	return false, nil
}

func (p *pager) addName(name string, kvs []*mvccpb.KeyValue) (full bool, err error) {
	after := int64(0)
	if name == p.after.name {
		after = p.after.revision
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	for i, kv := range kvs {
		if kv.CreateRevision <= after {
			continue
		}
		st, err := p.s.keys.standing(kv)
		if err != nil {
			return false, err
		}
		l := st.lock()
		if l.Position = i; l.State == Held {
			l.Position = 0
		}
		if p.f.State != nil && *p.f.State != l.State {
			continue
		}
		if len(p.page.Locks) == p.f.Limit {
			return true, nil
		}
		p.page.Locks = append(p.page.Locks, l)
		p.after = cursor{name, st.created}
	}
	if len(p.page.Locks) < p.f.Limit || p.after.name != name {
		p.after = cursor{name, math.MaxInt64} // nothing of this name is left to list
	}
	return false, nil
}

// Overlaps says whether any name that the filter is for is in one of the ranges that it is restricted to.
func (f Filter) Overlaps() bool {
	if f.Within == nil {
		return true
	}
	return slices.ContainsFunc(f.Within, func(n Names) bool {
		switch {
		case f.Name != "":
			return n.Exact == f.Name || n.Exact == "" && strings.HasPrefix(f.Name, n.Begins)
		case n.Exact != "":
			return strings.HasPrefix(n.Exact, f.Prefix)
		}
		return strings.HasPrefix(n.Begins, f.Prefix) || strings.HasPrefix(f.Prefix, n.Begins)
	})
}
