package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// line is one contended name as this replica sees it: a view of its queue, kept by one etcd watch that all waiters
// share, and the places in it that are served here. It exists while there is one.
type line struct {
	r      *registration
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	// recheck asks for a list beside the watch.
	recheck chan struct{}

	mu     sync.Mutex
	view   queue
	whole  bool
	places map[string]*place
	// idle counts the sweeps that found no place.
	idle int
}

func (r *registration) newLine(name string) *line {
	l := &line{r: r, name: name, recheck: make(chan struct{}, 1), places: make(map[string]*place)}
	l.ctx, l.cancel = context.WithCancel(r.ctx)
	if !r.spawn(l.run) {
		l.cancel()
	}
	return l
}

// relistEvery is how often a name is listed beside its watch, as watches have been the buggiest part of etcd.
const relistEvery = 30 * time.Second

// watchRetry is the pause before a broken watch is opened again.
const watchRetry = 100 * time.Millisecond

func (l *line) run() {
	for stream := 0; l.ctx.Err() == nil; stream++ {
		round := l.r.s.watchRound.Load()
		err := l.follow(round, stream)
		if errors.Is(err, errWatchRefused) {
			l.r.s.watchRound.CompareAndSwap(round, round+1)
		}
		l.mu.Lock()
		l.whole = false
		l.mu.Unlock()
		if l.ctx.Err() == nil {
			l.r.s.metrics.watchesBroken.Inc()
			l.r.s.log.Debug("watching a name anew", "cause", err)
			sleep(l.ctx, watchRetry)
		}
	}
}

// follow keeps the view until the watch breaks. The watch is opened first, at the present revision and confirmed, then
// the name is listed and earlier events are dropped: one that begins in the past would be served by etcd's slow
// catch-up loop.
func (l *line) follow(round int64, stream int) error {
	ctx, cancel := context.WithCancel(l.watchContext(round, stream))
	defer cancel()
	k := l.r.s.keys
	events := l.r.s.etcd.Watch(ctx, k.queue(l.name), clientv3.WithRange(k.queueEnd(l.name)), clientv3.WithCreatedNotify())
	if err := l.confirmed(events); err != nil {
		return err
	}
	c := catchUp{lists: make(chan listed, 1)}
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	c.start(ctx, &work, l)
	again := time.NewTicker(l.r.s.relistEvery + rand.N(l.r.s.relistEvery/4))
	defer again.Stop()
	silent := 0
	for {
		select {
		case <-again.C:
			c.start(ctx, &work, l)
		case resp, ok := <-events:
			if !ok {
				return errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				return err
			}
			silent = 0
			c.note(resp.Events)
			if err := l.apply(resp.Events); err != nil {
				return err
			}
		case got := <-c.lists:
			c.running = false
			if got.err != nil {
				return got.err
			}
			if err := l.replace(got, c.since); err != nil {
				return err
			}
		case <-l.recheck:
			if silent++; silent > 2 {
				return errors.New("the watch is silent while the queue moves")
			}
			c.start(ctx, &work, l)
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
}

// watchContext is one for a watch that must not outlive its member's contact with the leader. The first attempt shares
// the client's watch stream; a later one has a stream of its own, for the shared one may be stuck at a dead member. When
// etcd has refused a watch, all that come after it have new streams: a stream lives as long as any watch on it, and takes no
// new ones once the token that it was opened with has run out.
func (l *line) watchContext(round int64, stream int) context.Context {
	ctx := clientv3.WithRequireLeader(l.ctx)
	if round > 0 || stream > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, "latchkey-stream", fmt.Sprintf("%d-%d", round, stream%watchStreams))
	}
	return ctx
}

// errWatchRefused: etcd answered that it does not watch this.
var errWatchRefused = errors.New("the watch was refused")

// watchStreams bounds the streams of a round that broken watches are spread over.
const watchStreams = 4

func (l *line) confirmed(events clientv3.WatchChan) error {
	limit := time.NewTimer(l.r.s.perTry())
	defer limit.Stop()
	select {
	case resp, ok := <-events:
		if !ok {
			return errors.New("the watch ended before it began")
		}
		if err := resp.Err(); err != nil {
			return fmt.Errorf("%w: %w", errWatchRefused, err)
		}
		if !resp.Created {
			return errors.New("the watch began without saying so")
		}
		return nil
	case <-limit.C:
		return errors.New("the watch was not confirmed in time")
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// catchUp is a list under way beside the watch, and the events that came since it began.
type catchUp struct {
	lists   chan listed
	running bool
	since   []*clientv3.Event
}

type listed struct {
	claims   []standing
	revision int64
	err      error
}

func (c *catchUp) start(ctx context.Context, work *sync.WaitGroup, l *line) {
	if c.running {
		return
	}
	c.running, c.since = true, nil
	work.Go(func() { c.lists <- l.list(ctx) })
}

func (c *catchUp) note(events []*clientv3.Event) {
	if c.running {
		c.since = append(c.since, events...)
	}
}

func (l *line) list(ctx context.Context) listed {
	k := l.r.s.keys
	ctx, cancel := context.WithTimeout(ctx, l.r.s.cfg.RequestBound)
	defer cancel()
	got, err := l.r.s.read(ctx, clientv3.OpGet(k.queue(l.name), clientv3.WithRange(k.queueEnd(l.name))))
	if err != nil {
		return listed{err: err}
	}
	claims := make([]standing, len(got.ranges[0].Kvs))
	for i, kv := range got.ranges[0].Kvs {
		if claims[i], err = k.standing(kv); err != nil {
			return listed{err: err}
		}
	}
	return listed{claims: claims, revision: got.header.Revision}
}

// replace makes the list the view, and what came since on top of it.
func (l *line) replace(got listed, since []*clientv3.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view, l.whole = newQueue(got.claims, got.revision), true
	if err := l.take(since); err != nil {
		return err
	}
	for _, p := range l.places {
		l.compare(p)
		p.wake()
	}
	l.step()
	return nil
}

// apply brings the view forward by what the watch tells.
func (l *line) apply(events []*clientv3.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.whole {
		return nil // the list that is under way has them, or they come on top of it
	}
	if err := l.take(events); err != nil {
		return err
	}
	for _, e := range events {
		if p := l.places[string(e.Kv.Key)]; p != nil {
			l.compare(p)
		}
	}
	l.step()
	return nil
}

func (l *line) take(events []*clientv3.Event) error {
	for _, e := range events {
		if e.Kv.ModRevision <= l.view.revision {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			l.view.remove(string(e.Kv.Key))
			continue
		}
		st, err := l.r.s.keys.standing(e.Kv)
		if err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		l.view.put(st)
	}
	if n := len(events); n > 0 {
		l.view.revision = max(l.view.revision, events[n-1].Kv.ModRevision)
	}
	return nil
}

// compare tells a place what the view says of it. l.mu is held.
func (l *line) compare(p *place) {
	if st := l.view.byKey[p.key]; st != nil && st.created == p.st.created {
		p.saw(*st)
	} else if l.view.revision >= p.st.modified {
		p.finish(ErrPlaceLost)
	}
}

// step grants the first in line, if somebody waits for it here. No other waiter wakes. l.mu is held.
func (l *line) step() {
	if !l.whole {
		return
	}
	head := l.view.head()
	if head == nil || head.Held {
		return
	}
	if p := l.places[head.key]; p != nil && p.due(head) {
		p.turn = time.Now()
		p.begin(p.grant)
	}
}

// due reports that the claim may be granted as soon as nothing is ahead: it is the one that the view shows, and somebody
// waits for it here.
func (p *place) due(seen *standing) bool {
	return p.st.created == seen.created && p.attached > 0 && p.ending == 0 && p.open()
}

// doubt asks for a list if the watch has not told what a read has found: that the head is gone or was written since.
func (l *line) doubt(head standing, found *mvccpb.KeyValue) {
	l.mu.Lock()
	same := l.whole && l.view.head() != nil && l.view.head().key == head.key && l.view.head().modified == head.modified
	l.mu.Unlock()
	if !same || found != nil && found.ModRevision == head.modified {
		return
	}
	select {
	case l.recheck <- struct{}{}:
	default:
	}
}

// ahead counts the claims before the place; ok is false while the view cannot say.
func (l *line) ahead(p *place) (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.whole {
		return 0, false
	}
	return l.view.ahead(p.key, p.st.created)
}

// busy tells who holds the name and how many wait besides the claim under own, or nil if the view cannot say.
func (l *line) busy(own string) *HeldError {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.whole || l.view.head() == nil {
		return nil
	}
	return l.view.busy(own)
}

// idleSweeps is how many sweeps a line without places outlives: a busy name often has none for a moment.
const idleSweeps = 5

// sweep ends the lines that serve nobody any more, and returns the others.
func (r *registration) sweep() []*line {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := make([]*line, 0, len(r.lines))
	for name, l := range r.lines {
		l.mu.Lock()
		if l.idle++; len(l.places) > 0 {
			l.idle = 0
		}
		idle := l.idle
		l.mu.Unlock()
		if idle > idleSweeps {
			delete(r.lines, name)
			l.cancel()
			continue
		}
		live = append(live, l)
	}
	return live
}
