package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/server"
	"github.com/latchkey/latchkey/server/access"
)

// accessFlags say who may do what, and by what listeners.
type accessFlags struct {
	AuthFile       string `placeholder:"FILE" group:"access" help:"Who may do what: principals, their tokens and certificates, JWTs, and grants by name. Looked at every few seconds. Without it everybody may do everything, which a listener that is not on loopback does not start with."`
	InsecureNoAuth bool   `group:"access" help:"Serve without --auth-file on an address that is not loopback. Whoever reaches it can take, see and release every lock."`

	TLSCert           string `name:"tls-cert" placeholder:"FILE" group:"access" help:"The server's certificate, then those between it and the root: HTTPS is served in place of HTTP. Looked at every few seconds."`
	TLSKey            string `name:"tls-key" placeholder:"FILE" group:"access" help:"Its key."`
	TLSClientCA       string `name:"tls-client-ca" placeholder:"FILE" group:"access" help:"The certificates that those of clients must come from. A client that shows one is the principal which the auth file has for it."`
	TLSClientRequired bool   `name:"tls-client-required" group:"access" help:"Refuse clients without a certificate."`

	AdminListen string `placeholder:"HOST:PORT" group:"access" help:"Where to serve /metrics, /healthz and /readyz over HTTP to those who run the service. It asks nobody who they are. /metrics is then here only."`
	Pprof       bool   `group:"access" help:"Serve /debug/pprof/ there too."`
	AuditLog    string `placeholder:"FILE" group:"access" help:"Append a line of JSON to this file for each lock that an administrator breaks (default: in the log, as component audit)."`

	empty []string // flags that were given, and nothing in them
}

// AfterApply finds what is given and empty, as --auth-file=$FILE is in a shell without FILE: it must not pass for what was left
// out, which leaves a door open or, of --etcd-endpoints, has each replica hold locks of its own.
func (f *accessFlags) AfterApply(ctx *kong.Context) error {
	for _, flag := range ctx.Flags() {
		watched := flag.Group != nil && flag.Group.Key == "access" || flag.Name == "etcd-endpoints"
		if kind := flag.Target.Kind(); watched && flag.Set && (kind == reflect.String || kind == reflect.Slice) && flag.Target.Len() == 0 {
			f.empty = append(f.empty, flag.Name)
		}
	}
	return nil
}

func (f *accessFlags) check(bad *faults, listen string) {
	for _, flag := range f.empty {
		bad.add(flag, "is given and empty, as an unset variable of a shell makes it: give it a value, or leave it out")
	}
	if f.AuthFile != "" && f.InsecureNoAuth {
		bad.add("insecure-no-auth", "cannot be used together with --auth-file")
	}
	if f.AuthFile == "" && !f.InsecureNoAuth && hostPort(listen) == nil && !loopback(listen) {
		bad.add("listen", "is %q, which is not loopback alone: whoever reaches it could take, see and release every lock; give --auth-file, or --insecure-no-auth if that is meant", listen)
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		bad.add("tls-cert", "and --tls-key need each other")
	}
	if f.TLSClientCA != "" && f.TLSCert == "" {
		bad.add("tls-client-ca", "needs --tls-cert")
	}
	if f.TLSClientRequired && f.TLSClientCA == "" {
		bad.add("tls-client-required", "needs --tls-client-ca")
	}
	if f.AdminListen != "" {
		if err := hostPort(f.AdminListen); err != nil {
			bad.add("admin-listen", "%v, not %q", err, f.AdminListen)
		}
	}
	if f.Pprof && f.AdminListen == "" {
		bad.add("pprof", "needs --admin-listen")
	}
}

// loopback says that an address can be reached from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// gate is nil where nobody is asked who they are.
func (f *accessFlags) gate(logger *slog.Logger, registry prometheus.Registerer) (*access.Gate, error) {
	if f.AuthFile == "" {
		return nil, nil
	}
	return access.Open(access.Config{File: f.AuthFile}, logger.With("component", "access"), registry)
}

// tls is nil without it.
func (f *accessFlags) tls(logger *slog.Logger, registry prometheus.Registerer) (*server.TLS, error) {
	if f.TLSCert == "" {
		return nil, nil
	}
	return server.OpenTLS(server.TLSConfig{
		CertFile: f.TLSCert, KeyFile: f.TLSKey, ClientCAFile: f.TLSClientCA, RequireClientCert: f.TLSClientRequired,
		Logger: logger, Registerer: registry,
	})
}

// audit is the log of what administrators do.
func (f *accessFlags) audit(logger *slog.Logger) (*slog.Logger, error) {
	if f.AuditLog == "" {
		return logger.With("component", "audit"), nil
	}
	file := appended(f.AuditLog)
	if _, err := file.Write(nil); err != nil { // now, and not when there is something to write
		return nil, fmt.Errorf("the audit log: %w", err)
	}
	return slog.New(both{slog.NewJSONHandler(file, nil), logger.With("component", "audit").Handler()}), nil
}

// appended is a file that each line opens anew: it may be moved away at any time.
type appended string

func (a appended) Write(line []byte) (n int, err error) {
	file, err := os.OpenFile(filepath.Clean(string(a)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if n, err = file.Write(line); err != nil {
		return n, err
	}
	if len(line) > 0 {
		err = file.Sync()
	}
	return n, err
}

var _ io.Writer = appended("")

// both writes each line to two logs, and to the second what the first did not take, too.
type both struct{ first, second slog.Handler }

func (b both) Enabled(ctx context.Context, level slog.Level) bool {
	return b.first.Enabled(ctx, level) || b.second.Enabled(ctx, level)
}

func (b both) Handle(ctx context.Context, r slog.Record) error {
	err := b.first.Handle(ctx, r.Clone())
	if err != nil {
		failed := r.Clone()
		failed.AddAttrs(slog.String("audit_log", err.Error()))
		return errors.Join(err, b.second.Handle(ctx, failed))
	}
	return b.second.Handle(ctx, r)
}

func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b.first.WithAttrs(attrs), b.second.WithAttrs(attrs)}
}

func (b both) WithGroup(name string) slog.Handler {
	return both{b.first.WithGroup(name), b.second.WithGroup(name)}
}
