package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	etcdversion "go.etcd.io/etcd/api/v3/version"
)

// version is set by a release's linker: -ldflags "-X main.version=v1.2.3".
var version string

type versionCommand struct{}

func (*versionCommand) check(*faults) {}

func (*versionCommand) run(s surroundings) error {
	_, err := fmt.Fprintf(s.stdout, "latchkey %s\netcd %s, embedded\n%s %s/%s\n",
		versionText(), etcdversion.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// versionText is the release, or what the build knows of the source.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && text == "(devel)" {
			text += " " + s.Value
		}
	}
	return text
}
