//go:build !linux

package redisfixture

import "syscall"

// Without a parent-death signal, servers survive a killed program unless something else ends them.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
