package wasm

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// functions are the functions of WASI preview 1 that do more than to say that they are not there. Those of the module leasestorm
// belong to the changed standard library.
var functions = map[string]map[string]func(call) uint32{
	"wasi_snapshot_preview1": {
		"args_get":            wasi(func(c call) errno { return c.putStrings(programArgs) }),
		"args_sizes_get":      wasi(func(c call) errno { return c.putSizes(programArgs) }),
		"environ_get":         wasi(func(c call) errno { return c.putStrings(c.env) }),
		"environ_sizes_get":   wasi(func(c call) errno { return c.putSizes(c.env) }),
		"clock_time_get":      wasi(call.clockTime),
		"fd_close":            wasi(call.closeFile),
		"fd_fdstat_get":       wasi(call.fileStatus),
		"fd_fdstat_set_flags": wasi(call.knowsFile),
		"fd_filestat_get":     wasi(call.fileType),
		"fd_prestat_get":      wasi(func(call) errno { return ebadf }),
		"fd_read":             wasi(call.read),
		"fd_write":            wasi(call.write),
		"path_filestat_get":   wasi(func(call) errno { return enoent }),
		"path_open":           wasi(func(call) errno { return enoent }),
		"poll_oneoff":         wasi(call.poll),
		"proc_exit":           wasi(call.exit),
		"random_get":          wasi(call.random),
		"sched_yield":         wasi(func(call) errno { return success }),
	},
	"leasestorm": {
		"dial":      call.dial,
		"connected": wasi(call.connected),
		"pipe":      wasi(call.pipe),
		"signals":   call.openSignals,
		"signal":    wasi(call.setSignal),
	},
}

var programArgs = []string{"program"}

func wasi(f func(call) errno) func(call) uint32 { return func(c call) uint32 { return uint32(f(c)) } }

// hostFunction returns what a program imports. A function of WASI that is not implemented fails with ENOSYS.
func hostFunction(from, name string) (api.GoModuleFunc, error) {
	all, ok := functions[from]
	f := all[name]
	switch {
	case f != nil:
	case ok && from == "wasi_snapshot_preview1":
		f = wasi(func(call) errno { return enosys })
	default:
		return nil, fmt.Errorf("the program imports the function %s of %s, which is not part of WASI", name, from)
	}
	return func(ctx context.Context, m api.Module, stack []uint64) {
		p := ctx.Value(inside{}).(*program)
		defer p.keepPanic()
		p.count()
		result := f(call{p, m.Memory(), stack})
		if len(stack) > 0 {
			stack[0] = uint64(result)
		}
	}, nil
}

func (c call) clockTime() errno {
	mono, wall := c.clock()
	now := mono
	if c.u32(0) == 0 {
		now = wall
	}
	if !c.mem.WriteUint64Le(c.u32(2), uint64(now)) {
		return einval
	}
	return success
}

func (c call) random() errno {
	c.host.Random(c.bytes(c.u32(0), c.u32(1)))
	return success
}

func (c call) exit() errno {
	panic(sys.NewExitError(c.u32(0)))
}
