package etcdtest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package that uses this one. It runs the tests, asks that no goroutine outlives them, and exits.
// In a process that a [Cluster] started it is a member of etcd instead, until it is killed.
func Main(m *testing.M, leaks ...goleak.Option) {
	if spec := os.Getenv(memberEnv); spec != "" {
		err := runMember(spec)
		fmt.Fprintln(os.Stderr, "etcdtest: member:", err)
		os.Exit(1)
	}
	code := m.Run()
	closeShared()
	if code == 0 {
		if err := goleak.Find(leaks...); err != nil {
			fmt.Fprintln(os.Stderr, "etcdtest: goroutines outlive the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}
