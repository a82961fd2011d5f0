package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU time in /proc on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// Places of the fields of /proc/<pid>/stat, counted from behind the command's name.
const (
	statUser, statSystem = 11, 12
	statResident         = 21
)

func cpuTime(pid int) (time.Duration, error) {
	user, err := statField(pid, statUser)
	if err != nil {
		return 0, err
	}
	system, err := statField(pid, statSystem)
	return time.Duration(user+system) * clockTick, err
}

func residentBytes(pid int) (int64, error) {
	pages, err := statField(pid, statResident)
	return pages * int64(os.Getpagesize()), err
}

func statField(pid, field int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	behind := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(behind) <= field {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(behind))
	}
	return strconv.ParseInt(behind[field], 10, 64)
}

// ownCPU is what this process has used.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
