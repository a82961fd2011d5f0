package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
)

// roleEnv tells a process started by the benchmark what it is.
const roleEnv = "LATCHKEY_BENCH_ROLE"

// role is what one of the benchmark's own processes has to be: exactly one of its fields is set.
type role struct {
	Member  *memberSpec
	Ceiling *ceilingSpec
	Replica *replicaSpec
}

// playRole is a server until the benchmark is gone. It returns only when it cannot be one.
func playRole(encoded string) error {
	var r role
	if err := json.Unmarshal([]byte(encoded), &r); err != nil {
		return err
	}
	go obey()
	switch {
	case r.Member != nil:
		return r.Member.serve()
	case r.Ceiling != nil:
		return r.Ceiling.serve()
	case r.Replica != nil:
		return r.Replica.serve()
	}
	return errors.New("no role")
}

// What is said to a server on its standard input, a line each.
const (
	profileTo  = "profile to "
	profileEnd = "end the profile"

	unfinished = ".part"
)

// obey writes a CPU profile when told to, and ends the process when the benchmark, which holds the other end, is gone.
func obey() {
	var out *os.File // under another name until all of it is written
	for words := bufio.NewScanner(os.Stdin); words.Scan(); {
		path, begin := strings.CutPrefix(words.Text(), profileTo)
		switch {
		case begin:
			var err error
			if out, err = startProfile(path + unfinished); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
			}
		case words.Text() == profileEnd && out != nil:
			pprof.StopCPUProfile()
			err := errors.Join(out.Close(), os.Rename(out.Name(), strings.TrimSuffix(out.Name(), unfinished)))
			if err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
			}
			out = nil
		}
	}
	os.Exit(0)
}

func startProfile(path string) (*os.File, error) {
	out, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return out, pprof.StartCPUProfile(out)
}
