package main

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/real"
)

// A command line is parsed as by a shell, and the command that is printed for a replay gives the same words.
func TestCommandLines(t *testing.T) {
	t.Setenv("WHERE", "some where")
	for line, want := range map[string][]string{
		"python3 node.py":                   {"python3", "node.py"},
		"BUG=x  Y= python3 node.py":         {"BUG=x", "Y=", "python3", "node.py"},
		`BUG="a b" 'my node' --x \"q\" '*'`: {"BUG=a b", "my node", "--x", `"q"`, "*"},
		`"$WHERE/node" a$WHERE`:             {"some where/node", "asome", "where"},
		`sh -c 'exec "$0" | cat' ''`:        {"sh", "-c", `exec "$0" | cat`, ""},
	} {
		got, err := splitCommand(nodeCmdFlag, line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
			continue
		}
		flags, err := splitCommand(nodeCmdFlag, nodeFlag(got))
		if err != nil || len(flags) != 2 || flags[0] != "--node-cmd" {
			t.Errorf("%s: printed as %s", line, nodeFlag(got))
			continue
		}
		if again, err := splitCommand(nodeCmdFlag, flags[1]); err != nil || !slices.Equal(again, want) {
			t.Errorf("%s: printed as %s, which is read as %q, %v", line, nodeFlag(got), again, err)
		}
	}
	if got, want := nodeFlag([]string{"BUG=x", "sh", "it.sh"}), " --node-cmd 'BUG=x sh it.sh'"; got != want {
		t.Errorf("prints%s, want%s", got, want)
	}
	for _, line := range []string{"", "  ", "'node", "node | cat", "node > file", "node $(id)", "node; node"} {
		if got, err := splitCommand(nodeCmdFlag, line); err == nil {
			t.Errorf("%q is read as %q", line, got)
		}
	}
}

// The printed command has everything that is missing in the run's folder, and no password.
func TestReplayFlags(t *testing.T) {
	run := func(engine, redis string, node ...string) sim.Result {
		r := sim.Result{Start: sim.Start{Config: sim.Config{Engine: engine, NodeCmd: node}}}
		r.Report.Redis.Kind = redis
		return r
	}
	for name, test := range map[string]struct {
		f    environment
		r    sim.Result
		want string
	}{
		"the first server found":        {environment{}, run(sim.EngineReal, "server"), ""},
		"the server that was asked for": {environment{redis: "server"}, run(sim.EngineReal, "server"), " --redis server"},
		"none was found":                {environment{redisImage: real.RedisImage}, run(sim.EngineReal, "container"), " --redis container"},
		"another image": {
			environment{redis: "container", redisImage: "valkey:8"}, run(sim.EngineReal, "container"), " --redis container --redis-image valkey:8",
		},
		"a URL": {
			environment{redis: "redis://me:secret@10.0.0.1:6379/2", passwordFile: "a file"}, run(sim.EngineReal, "url"),
			" --redis redis://…@10.0.0.1:6379/2 --redis-password-file 'a file'",
		},
		"a fleet": {environment{compose: "docker"}, run(sim.EngineReal, "compose"), " --compose docker"},
		"containers of others": {
			environment{redis: "container", redisImage: real.RedisImage, launcher: launchContainers, nodeImage: "theirs"},
			run(sim.EngineReal, "container", "sh", "it.sh"), " --redis container --launcher container --node-image theirs --node-cmd 'sh it.sh'",
		},
		"scripts": {environment{lua: true}, run(sim.EngineVirtual, "model"), " --lua"},
	} {
		if got := test.f.replayFlags(test.r); got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}
