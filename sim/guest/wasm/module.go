// Package wasm builds Go programs for WebAssembly (wasip1) and runs them as a guest.Program. A program waits only in poll_oneoff, which
// gives the control back to the caller of Run. So its clock, network and randomness are those of the Host, and the same inputs give
// the same outputs, also on another engine of WebAssembly.
package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/leasestorm/leasestorm/sim/guest"
)

const (
	memoryPages = 512 << 20 / 65536 // what a program can have at most, in pages of 64 KiB
	cacheAge    = 7 * 24 * time.Hour
)

// Module is a compiled program, which can run several times at once. Its methods may be called by several goroutines.
type Module struct {
	// SHA256 identifies the program, in hexadecimal.
	SHA256 string

	runtime wazero.Runtime
	code    wazero.CompiledModule
	cache   wazero.CompilationCache // nil if there is none
}

// Compile translates a module of Build into machine code. It keeps the code in the user's cache directory for a week.
func Compile(ctx context.Context, module []byte) (*Module, error) {
	var cache wazero.CompilationCache
	if dir := cacheDir(); dir != "" {
		cache, _ = wazero.NewCompilationCacheWithDir(dir) // without, it takes longer
	}
	return compile(ctx, module, wazero.NewRuntimeConfig(), cache)
}

func compile(ctx context.Context, module []byte, config wazero.RuntimeConfig, cache wazero.CompilationCache) (*Module, error) {
	sum := sha256.Sum256(module)
	m := &Module{SHA256: hex.EncodeToString(sum[:]), cache: cache}
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(memoryPages))
	if err := m.load(ctx, module); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

func (m *Module) load(ctx context.Context, module []byte) error {
	module, err := limited(module)
	if err != nil {
		return err
	}
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	if m.code, err = m.runtime.CompileModule(ctx, module); err != nil {
		return fmt.Errorf("module of WebAssembly: %w", err)
	}
	if _, ok := m.code.ExportedFunctions()["_start"]; !ok {
		return fmt.Errorf("module of WebAssembly: no function _start")
	}
	hosts := map[string]wazero.HostModuleBuilder{}
	for _, f := range m.code.ImportedFunctions() {
		from, name, _ := f.Import()
		call, err := hostFunction(from, name)
		if err != nil {
			return err
		}
		if hosts[from] == nil {
			hosts[from] = m.runtime.NewHostModuleBuilder(from)
		}
		hosts[from].NewFunctionBuilder().WithGoModuleFunction(call, f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range hosts {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Start returns a program that begins in its first Run. It implements guest.Starter.
func (m *Module) Start(env []string, h guest.Host) guest.Program {
	return newProgram(m.instantiate, env, h)
}

func (m *Module) instantiate(ctx context.Context) (api.Module, error) {
	return m.runtime.InstantiateModule(ctx, m.code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

// Close frees the code. All programs must have been killed before.
func (m *Module) Close(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

// cacheDir removes old machine code from its directory and returns the directory; "": the user has no cache.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "leasestorm", "wasm")
	old, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, path := range old {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > cacheAge {
			_ = os.Remove(path)
		}
	}
	return dir
}
