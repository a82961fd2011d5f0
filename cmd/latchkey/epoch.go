package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey/latchkey/store"
	"github.com/latchkey/latchkey/store/embedded"
)

const epochBound = 10 * time.Second

type epochCommands struct {
	Show epochShow `cmd:"" help:"Show the epoch of a store."`
	Bump epochBump `cmd:"" help:"Begin a new epoch: every token from now on is above every earlier one. To be done after each restore of etcd from a backup."`
}

type epochFlags struct {
	etcdFlags `embed:""`
	logFlags  `embed:""`
}

func (f *epochFlags) check(bad *faults) {
	f.etcdFlags.check(bad)
	f.logFlags.check(bad)
}

type epochShow struct {
	epochFlags `embed:""`
}

func (c *epochShow) run(s surroundings) error {
	return c.with(s, func(ctx context.Context, e *etcd) error {
		epoch, err := store.ShowEpoch(ctx, e.Client, c.EtcdPrefix)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.stdout, "epoch %s: tokens start at %d and are at most %d so far\n",
			epoch.Mark, epoch.Base, epoch.Base+epoch.Revision)
		return err
	})
}

type epochBump struct {
	epochFlags `embed:""`
}

func (c *epochBump) run(s surroundings) error {
	return c.with(s, func(ctx context.Context, e *etcd) error {
		before, after, err := store.BumpEpoch(ctx, e.Client, c.EtcdPrefix)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.stdout, "epoch %s: tokens start at %d now; before, at %d\n", after.Mark, after.Base, before.Base)
		return err
	})
}

// with works on the store, an embedded one only if it is there and no server has it.
func (f *epochFlags) with(s surroundings, do func(context.Context, *etcd) error) (err error) {
	if !f.clustered() && !f.stands() {
		return &startError{fmt.Errorf("there is no store in %s", f.DataDir)}
	}
	e, err := f.open(s.stop, f.logger(s.stderr))
	if errors.Is(err, embedded.ErrInUse) {
		return &startError{fmt.Errorf("%w: stop the server there first", err)}
	}
	if err != nil {
		return &startError{err}
	}
	defer func() { err = errors.Join(err, e.close()) }()
	ctx, cancel := context.WithTimeout(s.stop, epochBound)
	defer cancel()
	return do(ctx, e)
}
