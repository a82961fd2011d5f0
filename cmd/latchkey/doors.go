package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/server"
	"github.com/latchkey/latchkey/server/access"
)

// doors are the ways into the service, and who watches them. What is wrong with them is found out before etcd is started;
// they are opened after it, so that whoever comes too early is refused and need not wait.
type doors struct {
	gate            *access.Gate // nil where nobody is asked
	tls             *server.TLS  // nil without
	audit           *slog.Logger
	listener, admin net.Listener
	adminServer     *http.Server
	stop            context.CancelFunc
	running         sync.WaitGroup
}

func (c *serveCommand) findDoors(ctx context.Context, logger *slog.Logger, registry *prometheus.Registry) (d *doors, err error) {
	d = &doors{stop: func() {}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.audit, err = c.accessFlags.audit(logger); err != nil {
		return d, err
	}
	if d.gate, err = c.gate(logger, registry); err != nil {
		return d, err
	}
	if d.tls, err = c.accessFlags.tls(logger, registry); err != nil {
		return d, err
	}
	for _, address := range []string{c.Listen, c.AdminListen} {
		if address == "" {
			continue
		}
		free, err := server.Listen(ctx, address, 0)
		if err != nil {
			return d, err
		}
		free.Close()
	}
	running, stop := context.WithCancel(context.Background())
	d.stop = stop
	if d.gate != nil {
		d.running.Go(func() { d.gate.Run(running) })
	}
	return d, nil
}

func (c *serveCommand) openDoors(ctx context.Context, d *doors, registry *prometheus.Registry) (err error) {
	d.listener, err = server.ListenWith(ctx, server.ListenConfig{
		Address: c.Listen, MaxConns: c.MaxConns.int, MaxConnsPerAddress: c.MaxConnsPerAddress.int, TLS: d.tls, Registerer: registry,
	})
	if err == nil && c.AdminListen != "" {
		d.admin, err = server.ListenWith(ctx, server.ListenConfig{Address: c.AdminListen})
	}
	return err
}

// asks is the gate, or nil: an interface that holds a nil pointer would not be.
func (d *doors) asks() server.Gate {
	if d.gate == nil {
		return nil
	}
	return d.gate
}

func (d *doors) scheme() string {
	if d.tls != nil {
		return "https"
	}
	return "http"
}

// serveAdmin serves those who run the service, as long as the doors are open.
func (d *doors) serveAdmin(s *server.Server, profiles bool, logger *slog.Logger) error {
	if d.admin == nil {
		return nil
	}
	d.adminServer = server.NewHTTPServer(s.Admin(profiles), logger)
	address := d.admin.Addr().String()
	if !loopback(address) {
		logger.Warn(openAdministration(profiles), "listen", address)
	}
	logger.Info("administration listens on http://"+address, "pprof", profiles)
	d.running.Go(func() {
		if err := d.adminServer.Serve(d.admin); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the listener for administration ended", "cause", err)
		}
	})
	return nil
}

// openAdministration warns of a listener that others than this machine may reach.
func openAdministration(profiles bool) string {
	const said = "the listener for administration asks nobody who they are: whoever reaches this address can read the metrics"
	if profiles {
		return said + ", AND --pprof lets them look into this process and keep it busy: let nobody but administrators reach it"
	}
	return said
}

func (d *doors) close() {
	d.stop()
	if d.adminServer != nil {
		d.adminServer.Close()
	}
	for _, listener := range []net.Listener{d.listener, d.admin} {
		if listener != nil {
			listener.Close()
		}
	}
	if d.tls != nil {
		d.tls.Close()
	}
	d.running.Wait()
}
