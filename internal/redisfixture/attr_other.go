//go:build !linux

package redisfixture

import "syscall"

// Without a parent-death signal, servers survive a killed program.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
