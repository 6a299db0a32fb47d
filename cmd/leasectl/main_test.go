package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasestorm/leasestorm/internal/node"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"leasectl": main, "node": func() { os.Exit(node.Main(os.Args[1:])) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			tb, ok := e.T().(testing.TB)
			if !ok {
				return fmt.Errorf("%T is no testing.TB", e.T())
			}
			e.Values["tb"], e.Values["server"] = tb, new(*redistest.Server)
			e.Setenv("ESC", "\x1b[2J\u009b2J")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": server, "certify": certify, "redis": command, "fill": fill, "ends": ends, "refuses": refuses, "head": head, "watches": watches,
		},
	})
}

// server starts a Redis with these arguments, for later calls of leasectl. "tls" alone starts one with TLS, whose authority is in the file
// $CA.
func server(ts *testscript.TestScript, neg bool, args []string) {
	option := redistest.Args(args...)
	tls := slices.Equal(args, []string{"tls"})
	if tls {
		option = redistest.TLS()
	}
	s := redistest.Start(ts.Value("tb").(testing.TB), option)
	*ts.Value("server").(**redistest.Server) = s
	ts.Setenv("LEASESTORM_REDIS_URL", s.URL())
	ts.Setenv("ADDR", s.Addr())
	if tls {
		ts.Setenv("CA", s.CAFile())
	}
}

// certify gives a TLS server a certificate that ends after this duration.
func certify(ts *testscript.TestScript, neg bool, args []string) {
	length, err := time.ParseDuration(args[0])
	ts.Check(err)
	(*ts.Value("server").(**redistest.Server)).Certify(time.Now().Add(length))
}

func client(ts *testscript.TestScript) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: ts.Getenv("ADDR")})
}

// command runs one command of Redis.
func command(ts *testscript.TestScript, neg bool, args []string) {
	c := client(ts)
	defer c.Close()
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	got, err := c.Do(context.Background(), words...).Result()
	if !errors.Is(err, redis.Nil) {
		ts.Check(err)
	}
	fmt.Fprintln(ts.Stdout(), got)
}

// fill writes this many leases.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	c := client(ts)
	defer c.Close()
	for begin := 0; begin < n; begin += 10_000 {
		pipe := c.Pipeline()
		for i := begin; i < min(n, begin+10_000); i++ {
			id := fmt.Sprintf("job-%06d", i)
			pipe.Set(context.Background(), "lease:name:"+id, "host-1", time.Hour)
			pipe.Set(context.Background(), "{lease:name:"+id+"}:fence", 1000+i, time.Hour)
		}
		_, err := pipe.Exec(context.Background())
		ts.Check(err)
	}
}

// ends runs leasectl and wants an exit code, its first argument.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("leasectl", args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("leasectl %q: exit code %d, want %s", args[1:], code, args[0])
	}
}

// refuses wants a code, one line on standard error and nothing else.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	ends(ts, neg, args)
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("leasectl %q wrote to standard output: %s", args, out)
	}
	said := ts.ReadFile("stderr")
	if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "leasectl: ") || strings.ContainsAny(said, "\x1b\u009b") {
		ts.Fatalf("leasectl %q: want one plain line, got %q", args, said)
	}
}

// started starts leasectl and returns its output.
func started(ts *testscript.TestScript, args []string) (cmd *exec.Cmd, out io.ReadCloser, said *strings.Builder) {
	path, err := exec.LookPath("leasectl")
	ts.Check(err)
	cmd = exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "LEASESTORM_REDIS_URL="+ts.Getenv("LEASESTORM_REDIS_URL"))
	said = &strings.Builder{}
	cmd.Stderr = said
	out, err = cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	return cmd, out, said
}

// endsFine wants exit code 0 within ten seconds, and nothing on standard error.
func endsFine(ts *testscript.TestScript, cmd *exec.Cmd, said *strings.Builder) {
	killer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	killer.Stop()
	if err != nil || said.Len() > 0 {
		ts.Fatalf("%q ended with %v: %s", cmd.Args, err, said)
	}
}

// head reads the first output of leasectl, and closes the pipe.
func head(ts *testscript.TestScript, neg bool, args []string) {
	cmd, out, said := started(ts, args)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		ts.Fatalf("leasectl %q wrote nothing: %s", args, said)
	}
	ts.Check(out.Close())
	endsFine(ts, cmd, said)
}

// watches runs watch, makes a change once it has begun, and interrupts it when it shows the change.
func watches(ts *testscript.TestScript, neg bool, args []string) {
	cmd, out, said := started(ts, append([]string{"watch", "--every", "50ms"}, args...))
	lines := bufio.NewScanner(out)
	lines.Scan()
	if !strings.Contains(lines.Text(), "watching") {
		ts.Fatalf("watch begins with %q: %s", lines.Text(), said)
	}
	c := client(ts)
	defer c.Close()
	name := fmt.Sprint("another-", time.Now().UnixNano())
	ts.Check(c.Set(context.Background(), "lease:name:"+name, "host-2", time.Hour).Err())
	for lines.Scan() {
		if strings.Contains(lines.Text(), name) && strings.Contains(lines.Text(), "host-2") {
			break
		}
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	endsFine(ts, cmd, said)
}

// The help of a command begins with a verb.
func TestHelpBeginsWithAVerb(t *testing.T) {
	verbs := strings.Fields("Ask Check Declare Find Read See Show")
	root := newRoot(func(string) string { return "" })
	for _, c := range append(root.Commands(), root) {
		for _, text := range []string{c.Short, c.Long} {
			if first, _, _ := strings.Cut(text, " "); text != "" && !slices.Contains(verbs, strings.TrimRight(first, ",")) {
				t.Errorf("the help of %s begins with %q, which is no verb of the list", c.Name(), first)
			}
		}
	}
}
