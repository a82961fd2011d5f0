//go:build !linux

package etcdtest

import "syscall"

func tied() *syscall.SysProcAttr { return nil }
