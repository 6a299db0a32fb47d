package process

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processTree returns the living processes of a program, without zombies: the process group of its leader (0: none), the processes with its
// mark in their environment, and all their descendants. Ancestors come before descendants.
func processTree(leader int, mark string) (all []treeProcess) {
	children := map[int][]treeProcess{}
	for _, pid := range pids() {
		f := procStat(pid)
		if f == nil || f[0] == "Z" || f[0] == "X" {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		m := treeProcess{pid: pid, stopped: f[0] == "T" || f[0] == "t", blocked: f[0] == "D"}
		m.group, _ = strconv.Atoi(f[2])
		if leader > 0 && (pid == leader || m.group == leader) || marked(pid, mark) {
			all = append(all, m)
		} else {
			children[parent] = append(children[parent], m)
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all
}

func pids() (all []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func marked(pid int, mark string) bool {
	if mark == "" {
		return false
	}
	env, _ := os.ReadFile(procFile(pid, "environ"))
	return slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark })
}

// stranger returns a process that is connected to one of the addresses and is not among own; pid is 0 if this user cannot see the process.
func stranger(addrs []string, own func() []treeProcess) (pid int, found bool) {
	sockets := connected(addrs)
	if len(sockets) == 0 {
		return 0, false
	}
	for _, m := range own() {
		for _, s := range openFiles(m.pid) {
			delete(sockets, s)
		}
	}
	if len(sockets) == 0 {
		return 0, false
	}
	for _, pid := range pids() {
		if holds(pid, sockets) {
			return pid, true
		}
	}
	for s := range connected(addrs) { // a socket that was closed since has no owner either
		if sockets[s] {
			return 0, true
		}
	}
	return 0, false
}

func clientsOf(addrs []string, of []treeProcess) (all []treeProcess) {
	sockets := connected(addrs)
	for _, m := range of {
		if len(sockets) > 0 && holds(m.pid, sockets) {
			all = append(all, m)
		}
	}
	return all
}

func holds(pid int, sockets map[string]bool) bool {
	return slices.ContainsFunc(openFiles(pid), func(f string) bool { return sockets[f] })
}

func connected(addrs []string) map[string]bool {
	sockets, remote := map[string]bool{}, map[string]bool{}
	for _, a := range addrs {
		if at, err := netip.ParseAddrPort(a); err == nil && at.Addr().Is4() {
			ip := at.Addr().As4()
			to := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port())
			remote[to], remote["0000000000000000FFFF0000"+to] = true, true
		}
	}
	if len(remote) == 0 {
		return nil
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(table)
		for l := range strings.Lines(string(b)) {
			const peer, state, inode, established = 2, 3, 9, "01"
			if f := strings.Fields(l); len(f) > inode && remote[f[peer]] && f[state] == established && f[inode] != "0" {
				sockets["socket:["+f[inode]+"]"] = true
			}
		}
	}
	return sockets
}

func openFiles(pid int) (links []string) {
	dir := procFile(pid, "fd")
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if link, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil {
			links = append(links, link)
		}
	}
	return links
}

// awaitExit returns when the child has ended. It does not reap the child, so that no other process gets its group ID.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}
