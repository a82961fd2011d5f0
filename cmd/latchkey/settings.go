package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// faults are all that is wrong with the settings of a command.
type faults []error

// add tells a fault of the flag named.
func (f *faults) add(flag, format string, args ...any) {
	env := "LATCHKEY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	*f = append(*f, fmt.Errorf("  --%s (%s) %s", flag, env, fmt.Sprintf(format, args...)))
}

func (f faults) join() error {
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("bad settings:\n%w", errors.Join(f...))
}

// duration is a flag whose text is judged together with all others.
type duration struct {
	time.Duration
	text string
	err  error
}

func (d *duration) UnmarshalText(text []byte) error {
	d.text = string(text)
	d.Duration, d.err = time.ParseDuration(d.text)
	return nil
}

func (d *duration) within(f *faults, flag string, least, most time.Duration) {
	if d.err != nil || d.Duration < least || d.Duration > most {
		f.add(flag, "must be a duration from %s to %s, not %q", short(least), short(most), d.text)
	}
}

// seconds is within for a duration that the API tells in whole seconds.
func (d *duration) seconds(f *faults, flag string, least, most time.Duration) {
	if d.err != nil || d.Duration < least || d.Duration > most || d.Duration%time.Second != 0 {
		f.add(flag, "must be whole seconds from %s to %s, not %q", short(least), short(most), d.text)
	}
}

// short leaves the zeros out of 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// number is the same for an integer.
type number struct {
	int
	text string
	err  error
}

func (n *number) UnmarshalText(text []byte) error {
	n.text = string(text)
	n.int, n.err = strconv.Atoi(n.text)
	return nil
}

func (n *number) within(f *faults, flag string, least, most int) {
	if n.err != nil || n.int < least || n.int > most {
		f.add(flag, "must be a number from %d to %d, not %q", least, most, n.text)
	}
}

const maxPort = 65535

// hostPort tells what is wrong with an address as "127.0.0.1:8080", or nil.
func hostPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("must be host:port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > maxPort {
		return fmt.Errorf("must end in a port from 0 to %d", maxPort)
	}
	return nil
}
