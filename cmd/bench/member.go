package main

import (
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// Only these two differ from etcd's own settings. Without compaction a long run would be one of a growing history.
const (
	memberQuota      = 8 << 30
	memberCompaction = "5m"

	memberLogLevel = "warn"
)

// memberSpec is what one member of the etcd has to know.
type memberSpec struct {
	Name      string
	Dir       string
	ClientURL string
	PeerURL   string
	Cluster   string // name=peer URL, for all
}

func (m *memberSpec) serve() error {
	peer, err := url.Parse(m.PeerURL)
	if err != nil {
		return err
	}
	client, err := url.Parse(m.ClientURL)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.Name, m.Dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.InitialCluster = m.Cluster
	cfg.QuotaBackendBytes = memberQuota
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, memberCompaction
	cfg.LogLevel = memberLogLevel
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	if err := <-etcd.Err(); err != nil {
		return err
	}
	return errors.New("etcd ended")
}
