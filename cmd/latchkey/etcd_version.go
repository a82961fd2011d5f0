package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-semver/semver"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// versionBound is how long the members may take to tell their versions, all together.
const versionBound = time.Second

// tellOld warns of each member that is of an earlier release of etcd than latchkey is built with and tested on: what is promised
// stands on what etcd does, and faults of its own that are mended since can break it. What does not answer is not waited for.
func tellOld(ctx context.Context, client *clientv3.Client, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, versionBound)
	defer cancel()
	for _, endpoint := range client.Endpoints() {
		status, err := client.Status(ctx, endpoint)
		if err == nil && earlierRelease(status.Version, etcdversion.Version) {
			logger.Warn("a member of etcd is older than what latchkey is tested with: bring it up to date",
				"member", endpoint, "etcd", status.Version, "tested", etcdversion.Version)
		}
	}
}

// earlierRelease says that a version is of an earlier release than another: patches do not count. One that cannot be read is not.
func earlierRelease(one, other string) bool {
	a, err := semver.NewVersion(one)
	if err != nil {
		return false
	}
	b, err := semver.NewVersion(other)
	return err == nil && (a.Major < b.Major || a.Major == b.Major && a.Minor < b.Minor)
}
