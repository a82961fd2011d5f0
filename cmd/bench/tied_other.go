//go:build !linux

package main

import "syscall"

func tied() *syscall.SysProcAttr { return nil }
