package latchkey

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// longestWait is more than any server lets wait. It keeps sums of durations sound.
const longestWait = 24 * time.Hour

// Claim sends the claim, and no heartbeat after it. See [Client.Lock] for a lock that is kept.
//
// The claim is answered Held; or Queued, if req.Queue is set and the wait ended without a grant; or the error is
// [ErrLockHeld].
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (Claim, error) {
	claim, _, err := c.claimFrom(ctx, req, nil)
	return claim, err
}

func (c *Client) claimFrom(ctx context.Context, req ClaimRequest, in *place) (claim Claim, a answer, err error) {
	if err := checkTexts(req.Holder, req.Metadata, req.Name); err != nil {
		return Claim{}, answer{}, err
	}
	if strings.ContainsFunc(req.Key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Claim{}, answer{}, errBadKey
	}
	a, err = c.call(ctx, request{
		method: http.MethodPost,
		path:   "locks",
		key:    req.Key,
		body:   req,
		wait:   time.Duration(min(max(req.WaitSeconds, 0), int64(longestWait/time.Second))) * time.Second,
		waits: func(r *request) {
			less := req
			less.WaitSeconds = int64(r.wait / time.Second)
			r.body = less
		},
		place: in,
		again: req.Key != "" || req.LeaseID != "",
		read:  into(&claim, func(got Claim) bool { return got.sound() && got.Name == req.Name }),
	})
	claim.Replayed = a.header.Get("Idempotent-Replayed") == "true"
	return claim, a, err
}

func (c Claim) sound() bool {
	return c.ID != "" && c.LeaseID != "" && c.TTLSeconds > 0 && (c.State == Queued || c.State == Held && c.FencingToken > 0)
}

// checkTexts refuses what JSON would silently replace.
func checkTexts(holder string, metadata map[string]string, more ...string) error {
	texts := append(more, holder)
	for key, value := range metadata {
		texts = append(texts, key, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("latchkey: %q is not valid UTF-8", text)
		}
	}
	return nil
}

var errBadKey = errors.New("latchkey: a key has a character that is not printable ASCII")

var errBadID = errors.New("latchkey: an id is empty, or has a character that none has")

// checkID keeps what is not an id from becoming another path.
func checkID(id string) error {
	for _, r := range id {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_') {
			return errBadID
		}
	}
	if id == "" {
		return errBadID
	}
	return nil
}

// Get looks at a claim. It keeps no place, takes no grant and renews nothing.
func (c *Client) Get(ctx context.Context, id string) (Claim, error) {
	claim, _, err := c.getLock(ctx, id, request{})
	return claim, err
}

// Ask asks for a claim: it keeps its place in the queue, takes the grant when its turn has come, and waits for that as long as
// wait, in whole seconds and up to the server's bound (55 s by default).
func (c *Client) Ask(ctx context.Context, id string, wait time.Duration) (Claim, error) {
	claim, _, err := c.ask(ctx, id, wait, nil)
	return claim, err
}

func (c *Client) ask(ctx context.Context, id string, wait time.Duration, in *place) (Claim, answer, error) {
	if _, err := wholeSeconds("the wait", wait); err != nil {
		return Claim{}, answer{}, err
	}
	r := request{wait: min(wait, longestWait), waits: waitInQuery, place: in}
	waitInQuery(&r)
	return c.getLock(ctx, id, r)
}

func waitInQuery(r *request) {
	r.query = url.Values{"wait_seconds": {strconv.FormatInt(int64(r.wait/time.Second), 10)}}
}

func (c *Client) getLock(ctx context.Context, id string, r request) (claim Claim, a answer, err error) {
	if err := checkID(id); err != nil {
		return Claim{}, answer{}, err
	}
	r.method, r.path, r.again = http.MethodGet, "locks/"+id, true
	r.read = into(&claim, func(got Claim) bool { return got.sound() && got.ID == id })
	a, err = c.call(ctx, r)
	return claim, a, err
}

// Release removes a claim: it releases the lock, or leaves the queue. [ErrLockNotFound] says that there was nothing to remove,
// perhaps because an earlier try of the same call did it.
func (c *Client) Release(ctx context.Context, id string) error {
	_, err := c.remove(ctx, "locks/", id, nil)
	return err
}

// Break removes another's claim, for administrators: the next in line is granted the lock at once, while the former holder may
// not know it yet. The holder is told the reason, 1 to 255 bytes of UTF-8 without control characters, as [ErrLockBroken].
func (c *Client) Break(ctx context.Context, id, reason string) error {
	if err := checkTexts(reason, nil); err != nil {
		return err
	}
	if reason == "" {
		return errNoReason
	}
	_, err := c.remove(ctx, "locks/", id, url.Values{"reason": {reason}})
	return err
}

var errNoReason = errors.New("latchkey: breaking a lock needs a reason")

func (c *Client) remove(ctx context.Context, path, id string, query url.Values) (answer, error) {
	if err := checkID(id); err != nil {
		return answer{}, err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path + id, query: query, again: true})
}

// Filter says which claims to list. Its zero value lists all, in pages of 100.
type Filter struct {
	Name   string // only the claims on this name; not together with Prefix
	Prefix string // only the claims on names that begin with this
	State  State  // only the claims in this state
	Limit  int    // so many a page at most: 1 to 1000, 100 if 0
	Cursor string // the NextCursor of the page before
}

// List returns a page of claims. A page can be short, even empty, and yet have a NextCursor.
func (c *Client) List(ctx context.Context, f Filter) (ClaimList, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"name": f.Name, "prefix": f.Prefix, "state": string(f.State), "cursor": f.Cursor,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Limit != 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	var page ClaimList
	_, err := c.call(ctx, request{
		method: http.MethodGet,
		path:   "locks",
		query:  query,
		again:  true,
		read:   into(&page, func(got ClaimList) bool { return got.Locks != nil }),
	})
	return page, err
}

// All goes through the claims that f says, page by page, and ends with the first error.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[Claim, error] {
	return func(yield func(Claim, error) bool) {
		for {
			page, err := c.List(ctx, f)
			if err != nil {
				yield(Claim{}, err)
				return
			}
			for _, claim := range page.Locks {
				if !yield(claim, nil) {
					return
				}
			}
			if f.Cursor = page.NextCursor; f.Cursor == "" {
				return
			}
		}
	}
}
