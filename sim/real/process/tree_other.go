//go:build !linux

package process

import "os/exec"

func awaitExit(*exec.Cmd) {}

// processTree returns no process: signals reach only the process group.
func processTree(int, string) []treeProcess { return nil }

func clientsOf([]string, []treeProcess) []treeProcess { return nil }

func stranger([]string, func() []treeProcess) (int, bool) { return 0, false }
