//go:build !linux

package main

import (
	"errors"
	"time"
)

func cpuTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
func residentBytes(int) (int64, error)   { return 0, errors.ErrUnsupported }
func ownCPU() (time.Duration, error)     { return 0, errors.ErrUnsupported }
