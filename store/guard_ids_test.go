package store

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"testing"
	"time"
)

// knocking is every call that takes an id, each of which must know nothing of an id that is none.
func knocking(t testing.TB, s *Store, id string) map[string]error {
	ctx := ctxFor(t)
	return map[string]error{
		"release":    s.Release(ctx, id),
		"look":       errOf(s.Look(ctx, id)),
		"ask":        errOf(s.Ask(ctx, id, 0, time.Now())),
		"follow":     s.Follow(ctx, id, time.Now(), func(Lock) error { return nil }),
		"renew":      errOf(s.Renew(ctx, id, time.Now())),
		"keep":       s.Keep(ctx, id, func(Kept) error { return nil }),
		"get lease":  errOf(s.GetLease(ctx, id)),
		"end lease":  s.EndLease(ctx, id),
		"claim with": errOf(s.Claim(ctx, Claim{Name: "another", LeaseID: id})),
	}
}

func wantUnknown(t testing.TB, s *Store, what, id string) {
	t.Helper()
	for call, err := range knocking(t, s, id) {
		if !errors.Is(err, ErrNoLock) && !errors.Is(err, ErrNoLease) {
			t.Errorf("%s by %s: got %v, want it unknown", call, what, err)
		}
	}
}

// Whoever knows the name, the token and all that is shown of a lock, and has an id of another, can do nothing to it.
func TestOnlyItsOwnIDMovesALock(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x", Holder: "h"})
	own, lease := mustHold(t, b, Claim{Name: "y"}), mustLease(t, b, 30*time.Second)
	mine, _ := parseLockID(own.ID)
	theirs, _ := parseLockID(held.ID)
	forge := func(change func(*lockID)) string {
		id := mine
		change(&id)
		return id.String()
	}
	for _, s := range []*Store{a, b} {
		for what, id := range map[string]string{
			"an own id with the other's name":              forge(func(id *lockID) { id.name = "x" }),
			"an own id with the other's name and revision": forge(func(id *lockID) { id.name, id.revision = "x", theirs.revision }),
			"the other's id with an own seal":              forge(func(id *lockID) { *id = theirs; id.seal = mine.seal }),
			"the other's id without a seal":                forge(func(id *lockID) { *id = theirs; id.seal = nonce{} }),
			"the other's id with its nonce for a seal":     forge(func(id *lockID) { *id = theirs; id.seal = theirs.nonce }),
			"the random part of its key":                   theirs.nonce.text(),
			"its key":                                      a.keys.claim("x", theirs.nonce),
			"its name":                                     "x",
			"its token":                                    fmt.Sprint(held.Token),
			"its cursor":                                   cursor{"x", theirs.revision}.String(),
			"random bytes":                                 newNonce().text(),
		} {
			wantUnknown(t, s, what, id)
		}
		wantErr(t, "release by nothing", s.Release(ctxFor(t), ""), ErrNoLock)
		wantErr(t, "release by a lease of one's own", s.Release(ctxFor(t), lease.ID), ErrNoLock)
	}
	wantSoleHolder(t, b, held)
	wantSoleHolder(t, a, own)
}

// Many own ids tell nothing of the next one, nor of one close by.
func TestNeighboursOfIDsAreNoIDs(t *testing.T) {
	const locks, tried = 50, 5
	a, b := pair(t)
	var all []Lock
	var random []nonce
	for i := range locks {
		l := mustHold(t, a, Claim{Name: fmt.Sprint("n", i)})
		id, _ := parseLockID(l.ID)
		lease := mustLease(t, b, 60*time.Second)
		all, random = append(all, l), append(random, id.nonce, id.seal)
		for _, text := range []string{lease.ID[:nonceText], lease.ID[nonceText:]} {
			n, ok := parseNonce(text)
			if !ok {
				t.Fatalf("a lease has the id %q", lease.ID)
			}
			random = append(random, n)
		}
	}
	const commonBits = 40 // of 128: two of two hundred agree in so many once in fifty million runs
	for i, one := range random {
		for _, other := range random[:i] {
			if n := agree(one, other); n > commonBits {
				t.Errorf("the random parts %x and %x agree in their first %d bits", one, other, n)
			}
		}
	}
	for _, l := range all[:tried] {
		raw, err := base64.RawURLEncoding.DecodeString(l.ID)
		if err != nil {
			t.Fatal(err)
		}
		for what, near := range neighbours(raw[:lockIDBytes]) {
			id := base64.RawURLEncoding.EncodeToString(append(near, raw[lockIDBytes:]...))
			ctx := ctxFor(t)
			if err := errors.Join(b.Release(ctx, id), errOf(b.Renew(ctx, id, time.Now()))); !errors.Is(err, ErrNoLock) || !errors.Is(err, ErrNoLease) {
				t.Errorf("an id, %s: got %v", what, err)
			}
		}
	}
	lease := random[2]
	for what, near := range neighbours(lease[:]) {
		if err := errOf(b.Renew(ctxFor(t), nonce(near).text(), time.Now())); !errors.Is(err, ErrNoLease) {
			t.Errorf("a lease's id, %s: got %v", what, err)
		}
	}
	for _, l := range all {
		if got, err := b.Look(ctxFor(t), l.ID); err != nil || got.Token != l.Token {
			t.Errorf("%s: got %+v, %v", l.Name, got, err)
		}
	}
}

// agree counts the bits in which two begin alike.
func agree(one, other nonce) int {
	for i := range one {
		if d := one[i] ^ other[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 8 * len(one)
}

// neighbours are all that differ in one bit, and those close by in the count.
func neighbours(raw []byte) map[string][]byte {
	all := map[string][]byte{}
	for bit := range 8 * len(raw) {
		near := append([]byte(nil), raw...)
		near[bit/8] ^= 1 << (bit % 8)
		all[fmt.Sprintf("bit %d other", bit)] = near
	}
	for _, by := range []int64{1, 2, 3, 10, 100, 256, 1000} {
		for _, by := range []int64{by, -by} {
			sum := new(big.Int).Add(new(big.Int).SetBytes(raw), big.NewInt(by))
			if sum.Sign() > 0 && sum.BitLen() <= 8*len(raw) {
				all[fmt.Sprintf("%+d", by)] = sum.FillBytes(make([]byte, len(raw)))
			}
		}
	}
	return all
}
