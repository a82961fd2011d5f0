package latchkey

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var (
	errBadToken   = errors.New("latchkey: a token is empty, or has a character other than printable ASCII without spaces")
	errNoToken    = errors.New("latchkey: no token")
	errTwoTokens  = errors.New("latchkey: Token and TokenSource exclude each other")
	errTwoHeaders = errors.New("latchkey: Header has an Authorization, and so would the token")
)

// credentials are the token that requests carry, and where another is had.
type credentials struct {
	source func(context.Context) (string, error) // nil: requests carry none
	asking chan struct{}                         // holds one while the source is asked

	mu    sync.Mutex
	token string // empty until the source was asked
}

func newCredentials(cfg Config) (*credentials, error) {
	source := cfg.TokenSource
	switch {
	case cfg.Token != "" && source != nil:
		return nil, errTwoTokens
	case cfg.Token != "":
		if !soundToken(cfg.Token) {
			return nil, errBadToken
		}
		source = func(context.Context) (string, error) { return cfg.Token, nil }
	}
	if source != nil && cfg.Header.Get("Authorization") != "" {
		return nil, errTwoHeaders
	}
	return &credentials{source: source, asking: make(chan struct{}, 1)}, nil
}

func soundToken(token string) bool {
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return token != ""
}

// get returns a token that is not the one refused, asking for it unless another request has done that meanwhile; refused itself
// if the source has no other.
func (c *credentials) get(ctx context.Context, refused string) (string, error) {
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("%w: %w", errNoToken, endOf(ctx))
	}
	if token := c.current(); token != refused {
		<-c.asking
		return token, nil
	}
	told := make(chan error, 1)
	go func() { // the source may not look at its context; then nobody else asks it before it has answered
		told <- c.ask(ctx)
		<-c.asking
	}()
	select {
	case err := <-told:
		return c.current(), err
	case <-ctx.Done():
		return "", fmt.Errorf("%w: %w", errNoToken, endOf(ctx))
	}
}

// ask asks the source for a token, and keeps it.
func (c *credentials) ask(ctx context.Context) error {
	token, err := c.source(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoToken, err)
	}
	if !soundToken(token) {
		return fmt.Errorf("%w: %w", errNoToken, errBadToken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	return nil
}

func (c *credentials) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}
