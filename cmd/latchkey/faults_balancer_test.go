package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// balancer hands requests to the replicas in turn, as a simple one in front of them does. What no replica takes, or
// answers in time, it sends to another, a POST too: the misuse that keys are for.
type balancer struct {
	w    *world
	url  string
	next atomic.Int64
	idle atomic.Int64 // how long it waits for an answer, in nanoseconds
	http *http.Client
}

const (
	balancerIdle  = 60 * time.Second
	balancerTries = 3
	balancerBody  = 64 << 10
)

func newBalancer(t *testing.T, w *world) *balancer {
	t.Helper()
	lines := &http.Transport{}
	b := &balancer{w: w, http: &http.Client{Transport: lines}}
	b.idle.Store(int64(balancerIdle))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: b}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-served
		lines.CloseIdleConnections()
	})
	return b
}

func (b *balancer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, balancerBody))
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	for range balancerTries {
		resp, text, err := b.try(r, body)
		if err != nil {
			continue
		}
		for name, values := range resp.Header {
			rw.Header()[name] = values
		}
		rw.WriteHeader(resp.StatusCode)
		rw.Write(text)
		return
	}
	rw.WriteHeader(http.StatusGatewayTimeout)
}

// try sends a request to the next replica.
func (b *balancer) try(r *http.Request, body []byte) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(b.idle.Load()))
	defer cancel()
	url := b.w.replicas[int(b.next.Add(1))%replicas].url() + r.URL.RequestURI()
	req, err := http.NewRequestWithContext(ctx, r.Method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = r.Header.Clone()
	if len(body) == 0 {
		req.Body, req.ContentLength = nil, 0
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}
