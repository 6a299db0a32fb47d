//go:build !linux

package redisfixture

import "syscall"

// There is no parent-death signal here: a program that is killed leaves its servers behind, unless something else ends them.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
