package server

import (
	"net/netip"
	"sync"
)

// network is what counts as one address: one of IPv4, or the 64 bits of IPv6 that a machine is commonly given whole.
type network = netip.Prefix

func networkOf(ip netip.Addr) network {
	ip = ip.Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip.WithZone(""), bits).Masked()
}

// networkLimit bounds the lines of each network.
type networkLimit struct {
	most int // 0: no bound, and nothing is counted

	mu    sync.Mutex
	lines map[network]int
}

// enter reports whether the network may have another line, and counts it.
func (n *networkLimit) enter(from network) bool {
	if n.most == 0 {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines[from] >= n.most {
		return false
	}
	if n.lines == nil {
		n.lines = map[network]int{}
	}
	n.lines[from]++
	return true
}

func (n *networkLimit) leave(from network) {
	if n.most == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines[from]--; n.lines[from] == 0 {
		delete(n.lines, from)
	}
}
