package real

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// ReaperMain must be called first in main. It returns at once, except in a stall meter's container and in the reaper, which cleans up after
// the simulator's end and exits. Without this call, children still die with a killed simulator (Linux), but folders, keys and containers
// stay.
func ReaperMain() {
	if len(os.Args) == 2 && os.Args[1] == meterArg {
		end, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		host.MeterStalls(meterBoxEvery, host.Monotonic, end.Done(), func(from, to int64) { fmt.Println(from, to) })
		stop()
		os.Exit(0)
	}
	process.ReaperMain(cleaners()...)
}

// cleaners remove containers before their folders.
func cleaners() []process.Cleaner {
	return []process.Cleaner{
		{Kind: reapProject, Clean: healProject}, {Kind: reapRun, Clean: removeContainers}, {Kind: reapDir, Clean: removeFolder},
		{Kind: reapKeys, Clean: deleteKeysAt},
	}
}

func healProject(project string) {
	if r, err := Provision(context.Background(), RedisChoice{Kind: kindCompose, Project: project}, ""); err == nil {
		_ = r.Close()
	}
}

func removeContainers(run string) {
	if e, err := container.Find(context.Background(), nil); err == nil {
		e.Run = run
		_ = e.Remove()
	}
}

func removeFolder(dir string) {
	// A process that was just killed may still be writing its last file.
	for range 20 {
		if os.RemoveAll(dir) == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func deleteKeysAt(url string) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return
	}
	c := adminClient(adminOptions(opts))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	_, _ = deleteRunKeys(ctx, c)
	cancel()
	_ = c.Close()
}
