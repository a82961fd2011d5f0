package latchkey

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// send sends the request, and once more with a fresh token if the service refuses the first. The answer tells when the last of
// the two was sent.
func (c *Client) send(ctx context.Context, server int, r request) (*http.Response, answer, error) {
	token := c.credentials.current()
	if c.credentials.source != nil && token == "" {
		var err error
		if token, err = c.credentials.get(ctx, ""); err != nil {
			return nil, answer{}, err
		}
	}
	resp, a, err := c.sendWith(ctx, server, r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || token == "" {
		return resp, a, err
	}
	fresh, err := c.credentials.get(ctx, token)
	if err != nil || fresh == token {
		return resp, a, nil // the refusal says more
	}
	io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer)) // so that its line can be used again
	resp.Body.Close()
	return c.sendWith(ctx, server, r, fresh)
}

func (c *Client) sendWith(ctx context.Context, server int, r request, token string) (*http.Response, answer, error) {
	req, err := c.newRequest(ctx, c.servers.urls[server], r)
	if err != nil {
		return nil, answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	a := answer{sent: c.now()}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, answer{}, &lineError{c.servers.host(server), withoutURL(err)}
	}
	a.header = resp.Header
	return resp, a, nil
}

func (c *Client) newRequest(ctx context.Context, base *url.URL, r request) (*http.Request, error) {
	target := base.JoinPath(r.path)
	target.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("latchkey: request body: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("latchkey: request: %w", withoutURL(err))
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	return req, nil
}
