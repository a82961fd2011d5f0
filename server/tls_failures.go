package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

var errHandshakeTooSlow = errors.New("the handshake took too long")

// Why a handshake fails, as logs and metrics say it.
const (
	failedLeft    = "client_left"
	failedSlow    = "timeout"
	failedPlain   = "not_tls"
	failedPeer    = "client_certificate"
	failedAnother = "other" // no version, suite or protocol in common; no client certificate; ours not trusted
)

func failureReason(err error) string {
	var (
		plain tls.RecordHeaderError
		peer  *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, errHandshakeTooSlow), errors.Is(err, os.ErrDeadlineExceeded):
		return failedSlow
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return failedLeft
	case errors.As(err, &plain):
		return failedPlain
	case errors.As(err, &peer):
		return failedPeer
	}
	return failedAnother
}

// failed counts and logs a handshake that failed. Balancers that only try whether the port is open are not worth a line,
// nor is what speaks no TLS.
func (t *TLS) failed(tcp *net.TCPConn, err error) {
	reason, level := failureReason(err), slog.LevelDebug
	if reason == failedPeer || reason == failedAnother {
		level = slog.LevelInfo
	}
	t.metrics.failed.WithLabelValues(reason).Inc()
	t.log.Log(context.Background(), level, "a TLS handshake failed",
		"reason", reason, "client", tcp.RemoteAddr().String(), "cause", err)
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
		answerPlain(tcp)
	}
}

func looksLikeHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "TRACE":
		return true
	}
	return false
}

// answerPlain tells a client that speaks plain HTTP of its mistake, and reads on for a little, so that it gets the answer.
func answerPlain(tcp *net.TCPConn) {
	problem := problemOf(&inputError{}, unmatched)
	problem.Detail = "this port takes HTTP over TLS alone: use https"
	body, err := json.Marshal(problem)
	if err != nil {
		return
	}
	res := http.Response{
		StatusCode:    problem.Status,
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"application/problem+json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Close:         true,
	}
	_ = tcp.SetDeadline(time.Now().Add(lingerTime)) // whatever fails here, the connection ends
	if res.Write(tcp) == nil && tcp.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, tcp, lingerBytes)
	}
}
