package etcdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below those that systems give to outgoing connections: a server that is stopped finds its own free
// when it starts again.
const (
	firstPort = 12_000
	portCount = 18_000
	portTries = 200
)

// listen takes a free loopback port.
func listen() (net.Listener, error) {
	var last error
	for range portTries {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portCount)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port after %d tries: %w", portTries, last)
}

// freePorts names n ports that nobody listens on just now.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := listen()
		if err != nil {
			return nil, err
		}
		defer l.Close() // kept until all are found, or one could be found twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
