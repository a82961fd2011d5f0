package etcdtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// memberEnv tells a process started by a Cluster which member it is.
const memberEnv = "LATCHKEY_ETCDTEST_MEMBER"

const memberLogLevel = "warn"

// memberSpec is what one member of a cluster has to know.
type memberSpec struct {
	Name      string
	Dir       string
	ClientURL string
	PeerURL   string
	Cluster   string // name=peer URL, for all
	Token     string
	Heartbeat time.Duration
	Election  time.Duration
	memberSettings
}

// runMember is a member of etcd until the process that started it is gone. It returns only when it cannot be one.
func runMember(encoded string) error {
	var spec memberSpec
	if err := json.Unmarshal([]byte(encoded), &spec); err != nil {
		return err
	}
	cfg, err := spec.config()
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin) // the starting process holds the other end
		os.Exit(0)
	}()
	lowerSegmentSize()
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	if err := <-etcd.Err(); err != nil {
		return err
	}
	return errors.New("etcd ended")
}

func (m memberSpec) config() (*embed.Config, error) {
	peer, err := url.Parse(m.PeerURL)
	if err != nil {
		return nil, err
	}
	client, err := url.Parse(m.ClientURL)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.Name, m.Dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.InitialCluster, cfg.InitialClusterToken = m.Cluster, m.Token
	cfg.TickMs, cfg.ElectionMs = uint(m.Heartbeat.Milliseconds()), uint(m.Election.Milliseconds())
	cfg.GRPCKeepAliveMinTime = minPingInterval
	cfg.EnableGRPCGateway = false
	cfg.UnsafeNoFsync = true // a killed process loses nothing by it
	cfg.LogLevel = memberLogLevel
	return cfg, m.settle(cfg)
}
