package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// line is one client's connection to an HTTP service, kept alive. All HTTP services are measured through it.
type line struct {
	http   *http.Client
	answer bytes.Buffer
}

func newLine() *line {
	return &line{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}}}
}

// exchange sends a request and returns the answer, read to its end and good until the next exchange.
func (l *line) exchange(ctx context.Context, method, url string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	l.answer.Reset()
	if _, err := l.answer.ReadFrom(resp.Body); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, l.answer.Bytes(), nil
}

// call exchanges JSON. An answer with another status than want is an error.
func (l *line) call(ctx context.Context, method, url string, want int, request, answer any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	status, text, err := l.exchange(ctx, method, url, body)
	if err != nil {
		return err
	}
	if status != want {
		return fmt.Errorf("%s answers %d %.200s", method, status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func (l *line) hangUp() { l.http.CloseIdleConnections() }

// die has nothing to stop: over HTTP a lease is kept alive by requests alone.
func (l *line) die() {}
