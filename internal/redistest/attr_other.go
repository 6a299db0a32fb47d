//go:build !linux

package redistest

import "syscall"

// sysProcAttr is empty where there is no parent-death signal: a killed test leaves its server behind.
func sysProcAttr() *syscall.SysProcAttr { return nil }
