package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

type treeProcess struct {
	pid, group int
	stopped    bool
	blocked    bool // uninterruptible: after SIGSTOP it stops before it runs again
}

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// procStat returns the fields of /proc/<pid>/stat from the state on: state, parent, group, …; nil if there are none.
func procStat(pid int) []string {
	stat, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return nil
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before it may contain anything
	if len(f) < 3 {
		return nil
	}
	return f
}

// Stopped reports whether a process is stopped, or gone.
func Stopped(pid int) bool {
	f := procStat(pid)
	return f == nil || f[0] == "T" // nil: no such process, or no /proc
}

// Catches reports whether a process has a handler for a signal.
func Catches(pid int, sig syscall.Signal) bool {
	status, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		return false
	}
	for l := range strings.SplitSeq(string(status), "\n") {
		if mask, ok := strings.CutPrefix(l, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(uint(sig)-1)) != 0
		}
	}
	return false
}
