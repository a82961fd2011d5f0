//go:build !linux

package latchkey_test

import "syscall"

func tied() *syscall.SysProcAttr { return nil }
