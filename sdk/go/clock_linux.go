package latchkey

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME of linux/time.h

// newClock returns a clock that only goes forward, and goes on while the machine sleeps, which that of package time does not.
func newClock() func() time.Duration {
	if _, ok := sinceBoot(); !ok { // a sandbox may forbid it
		return sinceStart()
	}
	return func() time.Duration {
		d, _ := sinceBoot()
		return d
	}
}

func sinceBoot() (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
