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

// Incarnation says which process a worker is, so that its successor on the same machine can tell whether it still runs.
type Incarnation struct {
	Name  string `json:"name"`
	Boot  string `json:"boot,omitempty"`  // of the kernel
	PIDNS string `json:"pidns,omitempty"` // namespace in which PID counts
	Time  string `json:"time,omitempty"`  // namespace in which Start counts; "" where the system has none
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"` // ticks after the boot
	Life  int64  `json:"life,omitempty"`  // ms without a beat after which it is dead; 0: as long as the reader's
}

// WhoAmI describes this process, as far as the system tells (Linux does).
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
	// Of a /proc that shows another namespace than that in which this process runs nothing is to be believed.
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

// Fate is what one process can tell of another.
type Fate uint8

// The fates. Unknown is one on another machine or in another container.
const (
	Unknown Fate = iota
	Alive        // it runs, or stands still, on this machine
	Dead         // it certainly does not run any more
)

// FateOf tells what became of the process that another worker was. It is dead if this machine has not booted since, and its process ID
// stands for nobody, or for a process that began at another time. A namespace that is gone has taken its processes with it, so one
// that was given the same name since proves the same.
func (me Incarnation) FateOf(other Incarnation) Fate {
	if me.Boot == "" || me.Boot != other.Boot || me.PIDNS != other.PIDNS || me.Time != other.Time || other.PID == 0 {
		return Unknown
	}
	start, ended, err := processStart(other.PID)
	return fate(other.Start, start, ended, err, func() error { return syscall.Kill(other.PID, 0) })
}

// fate is that of a process that began at a time, where one that began at start, and may have ended, was read in its place. What /proc does
// not show may be hidden (hidepid): no such process is there only if it cannot be signalled either, be it for want of rights.
func fate(began, start uint64, ended bool, read error, signalled func() error) Fate {
	switch {
	case read == nil && start == began && !ended:
		return Alive
	case read == nil, errors.Is(read, fs.ErrNotExist) && errors.Is(signalled(), syscall.ESRCH):
		return Dead
	}
	return Unknown
}

func parseIncarnation(text string) (i Incarnation, ok bool) {
	return i, json.Unmarshal([]byte(text), &i) == nil
}

func (me Incarnation) String() string {
	text, err := json.Marshal(me)
	if err != nil { // strings and numbers only: it cannot fail
		return "{}"
	}
	return string(text)
}

// processStart reads when a process began, and whether all of it has ended and only its parent has not looked yet.
func processStart(pid int) (ticks uint64, ended bool, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, err
	}
	// The command may hold spaces and parentheses; what follows the last one does not.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, threads, start = 0, 17, 19 // from the third field on, proc(5)
	if len(fields) <= start {
		return 0, false, fmt.Errorf("stat of process %d has %d fields", pid, len(fields))
	}
	ticks, err = strconv.ParseUint(string(fields[start]), 10, 64)
	gone := bytes.IndexByte([]byte("ZX"), fields[state][0]) >= 0
	return ticks, gone && (len(fields[threads]) == 1 && fields[threads][0] <= '1'), err
}
