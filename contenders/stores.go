package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// free returns an address on which nobody listens.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaits waits until somebody listens.
func awaits(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fiveServers starts five servers of Redis, and returns the flags that tell adapters of them.
func fiveServers(dir string) (flags []string, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var servers []*exec.Cmd
	stop = func() {
		cancel()
		for _, s := range servers {
			_ = s.Wait() // it was killed
		}
	}
	for i := 1; i <= 5 && err == nil; i++ {
		var address string
		if address, err = free(); err != nil {
			break
		}
		_, port, _ := net.SplitHostPort(address)
		server := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
		if err = server.Start(); err == nil {
			servers = append(servers, server)
			err = awaits(address)
		}
		flags = append(flags, "--proxy", fmt.Sprintf("R%d=%s", i, address))
	}
	if err != nil {
		stop()
	}
	return flags, stop, err
}

// postgres starts a server of PostgreSQL, as the user postgres if this user may not.
func postgres(dir string) (flags []string, stop func(), err error) {
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		who, err := user.Lookup("postgres")
		if err != nil {
			return nil, nil, err
		}
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, uid, gid)); err != nil {
			return nil, nil, err
		}
	}
	run := func(argv ...string) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		if out, failed := cmd.CombinedOutput(); failed != nil && err == nil {
			err = fmt.Errorf("%q: %w: %s", argv, failed, out)
		}
	}
	address, err := free()
	_, port, _ := net.SplitHostPort(address)
	run("initdb", "-D", "data", "-A", "trust", "-U", "postgres", "--no-sync")
	run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", "-F -k "+dir+" -p "+port, "start")
	stop = func() { run("pg_ctl", "-D", "data", "-m", "immediate", "stop") }
	return []string{"--proxy", "postgres=" + address}, stop, err
}
