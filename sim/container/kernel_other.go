//go:build !linux

package container

// kernel returns what no engine says of itself: elsewhere than on Linux, containers run in a virtual machine.
func kernel() string { return "none that runs containers" }
