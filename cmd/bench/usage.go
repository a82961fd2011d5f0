package main

import "time"

// usage is the CPU time that processes have used so far. Not every system tells.
type usage struct {
	etcd, service, load time.Duration
	known, served       bool // served: there is a service
}

func (u usage) since(before usage) usage {
	return usage{u.etcd - before.etcd, u.service - before.service, u.load - before.load, u.known && before.known, u.served}
}

// cpuOf is what processes have used together.
func cpuOf(list []*process) (sum time.Duration, known bool) {
	for _, p := range list {
		used, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, false
		}
		sum += used
	}
	return sum, true
}

// memoryOf is the memory of processes that is resident.
func memoryOf(list []*process) (bytes int64, known bool) {
	for _, p := range list {
		resident, err := residentBytes(p.cmd.Process.Pid)
		if err != nil {
			return 0, false
		}
		bytes += resident
	}
	return bytes, true
}
