package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// twoReplicas are two in this process, on an etcd that other tests use too, under a prefix of the test's own.
func twoReplicas(t *testing.T, args ...string) (a, b *running) {
	t.Helper()
	args = append([]string{"--etcd-endpoints=" + etcdtest.Shared(t).Endpoint(), ownPrefix(t)}, args...)
	return serve(t, args...), serve(t, args...)
}

// ownPrefix keeps a test apart from all others on its etcd, and from itself when it is run again.
func ownPrefix(t *testing.T) string { return "--etcd-prefix=/" + t.Name() + "/" + rand.Text() + "/" }

// heard is an answer as it came.
type heard struct {
	status int
	header http.Header
	body   string
}

// hear makes a request on a line of its own, and reads its answer whatever it is.
func hear(t *testing.T, method, url, body string, header ...string) heard {
	t.Helper()
	got, err := tryToHear(t.Context(), method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func tryToHear(ctx context.Context, method, url, body string, header ...string) (heard, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return heard{}, err
	}
	req.Close = true
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return heard{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return heard{resp.StatusCode, resp.Header, string(text)}, err
}

// sayRaw says bytes that somebody recorded on a line of their own, and returns the status of the answer.
func sayRaw(t *testing.T, replica, bytes string) int {
	t.Helper()
	line := dialTo(t, replica)
	defer line.Close()
	if _, err := io.WriteString(line, bytes); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(line), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func dialTo(t *testing.T, replica string) net.Conn {
	t.Helper()
	line, err := net.Dial("tcp", strings.TrimPrefix(replica, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	line.SetDeadline(time.Now().Add(bound))
	return line
}

func rawRequest(method, path string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", method, path)
}
