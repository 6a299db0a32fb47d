package membership

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Incarnation identifies a worker's process, so that its successor on the same machine can find out whether it still runs.
type Incarnation struct {
	Name  string `json:"name"`
	Boot  string `json:"boot,omitempty"`  // of the kernel
	PIDNS string `json:"pidns,omitempty"` // namespace of PID
	Time  string `json:"time,omitempty"`  // namespace of Start; "" where the system has none
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"` // ticks after the boot
	Life  int64  `json:"life,omitempty"`  // ms without a beat after which it is dead; 0: the reader's life
}

// WhoAmI describes this process. If /proc does not show it, only Name is set.
func WhoAmI(name string) Incarnation {
	me := Incarnation{Name: name}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return me
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return me
	}
	// /proc may show another PID namespace, whose PIDs mean other processes.
	if shown, err := os.Readlink("/proc/self"); err != nil || shown != strconv.Itoa(os.Getpid()) {
		return me
	}
	start, _, err := processStart(os.Getpid())
	if err != nil {
		return me
	}
	if me.Time, err = os.Readlink("/proc/self/ns/time"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return me
	}
	me.Boot, me.PIDNS, me.PID, me.Start = string(bytes.TrimSpace(boot)), ns, os.Getpid(), start
	return me
}

// Fate is what one process knows of another.
type Fate uint8

// The fates. A process on another machine or in another container is Unknown.
const (
	Unknown Fate = iota
	Alive        // it runs, or is stopped, on this machine
	Dead         // it does not run any more
)

// FateOf returns the fate of another worker's process. The process is Dead if this machine has not booted since and no process with its
// ID and start time exists. A namespace takes its processes with it, so a newer namespace of the same name proves the same.
func (me Incarnation) FateOf(other Incarnation) Fate {
	if me.Boot == "" || me.Boot != other.Boot || me.PIDNS != other.PIDNS || me.Time != other.Time || other.PID == 0 {
		return Unknown
	}
	start, ended, err := processStart(other.PID)
	return fate(other.Start, start, ended, err, func() error { return signal(other.PID) })
}

// signal returns os.ErrProcessDone if no process has this ID.
func signal(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	return p.Signal(syscall.Signal(0))
}

// fate returns the fate of a process that began at began, from the result of processStart for its ID. /proc may hide processes (hidepid),
// so a missing process is dead only if signalled returns os.ErrProcessDone.
func fate(began, start uint64, ended bool, read error, signalled func() error) Fate {
	switch {
	case read == nil && start == began && !ended:
		return Alive
	case read == nil, errors.Is(read, fs.ErrNotExist) && errors.Is(signalled(), os.ErrProcessDone):
		return Dead
	}
	return Unknown
}

func parseIncarnation(text string) (i Incarnation, ok bool) {
	return i, json.Unmarshal([]byte(text), &i) == nil
}

func (me Incarnation) String() string {
	text, err := json.Marshal(me)
	if err != nil { // impossible: only strings and numbers
		return "{}"
	}
	return string(text)
}

// processStart returns when a process began, in ticks after the boot, and whether it is a zombie without other threads.
func processStart(pid int) (ticks uint64, ended bool, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, err
	}
	// The command may contain spaces and parentheses, so count fields from the last parenthesis.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, threads, start = 0, 17, 19 // from the third field on, proc(5)
	if len(fields) <= start {
		return 0, false, fmt.Errorf("stat of process %d has %d fields", pid, len(fields))
	}
	ticks, err = strconv.ParseUint(string(fields[start]), 10, 64)
	gone := bytes.IndexByte([]byte("ZX"), fields[state][0]) >= 0
	return ticks, gone && (len(fields[threads]) == 1 && fields[threads][0] <= '1'), err
}
