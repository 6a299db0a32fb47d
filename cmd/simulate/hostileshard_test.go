package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// forge makes a shard's file of an honest one's first line, with texts in it replaced by others, and lines behind it. Its sum is right.
func forge(t *testing.T, honest, file string, instead []string, lines func(io.Writer)) {
	t.Helper()
	in, err := os.Open(honest)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(all, []byte("\n"))
	for i := 0; i < len(instead); i += 2 {
		if !bytes.Contains(first, []byte(instead[i])) {
			t.Fatalf("%s holds no %q", first, instead[i])
		}
	}
	if err := bomb(file, func(w io.Writer) {
		sum := sha256.New()
		both := io.MultiWriter(w, sum)
		fmt.Fprintln(both, strings.NewReplacer(instead...).Replace(string(first)))
		lines(both)
		fmt.Fprintf(w, "{\"end\":true,\"sha256\":\"%x\"}\n", sum.Sum(nil))
	}); err != nil {
		t.Fatal(err)
	}
}

// line writes lines, each with its number.
func line(n int, format string) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, format+"\n", i+1)
		}
	}
}

// Files of shards that somebody else made are refused in one line, whatever reads them, and cost little.
func TestHostileShards(t *testing.T) {
	dir := t.TempDir()
	explore := []string{"--engine", "virtual", "--nodes", "2", "--sessions", "2", "--duration", "1m", "--seeds", "1-8", "--quiet"}
	if e := play(t, dir, "simulate", explore...); e.code == exitWrong {
		t.Fatal(e)
	}
	const name = "explore-1-8.jsonl.zst"
	honest := filepath.Join(dir, "honest")
	if err := os.Rename(filepath.Join(dir, "reports", name), honest); err != nil {
		t.Fatal(err)
	}
	planned := strings.Repeat(`{"kind":"crash"},`, 900_000)
	for what, c := range map[string]struct {
		instead []string
		lines   func(io.Writer)
		says    string
	}{
		"lines of nothing": {nil, func(w io.Writer) { _, _ = io.WriteString(w, strings.Repeat("{}\n", 3_000_000)) }, "it contradicts itself"},
		"seeds twice":      {nil, line(1_000_000, `{"seed":1,"broke":["G1"],"detail":"%d"}`), "it contradicts itself"},
		"broke":            {nil, line(1, `{"seed":%d,"broke":[`+strings.Repeat(`"",`, 5_000_000)+`""]}`), "it contradicts itself"},
		"broke by nobody":  {[]string{`"broken":0`, `"broken":5`}, line(0, ""), "it contradicts itself"},
		"first line":       {[]string{`"seeds":`, `"failed":[` + strings.Repeat(`{},`, 5_000_000) + `{}],"seeds":`}, line(0, ""), "cannot unmarshal"},
		"plans":            {nil, line(12, `{"seed":%d,"broke":["G1"],"plan":{"version":1,"faults":[`+planned+`{"kind":"crash"}]}}`), "it contradicts itself"},
	} {
		t.Run(what, func(t *testing.T) {
			file := filepath.Join(dir, "reports", name)
			forge(t, honest, file, c.instead, c.lines)
			refused(t, play(t, dir, "simulate", "merge", filepath.Join("reports", name)), c.says)
			refused(t, play(t, dir, "simulate", append(explore, "--resume")...), c.says)
		})
	}
	t.Run("millions that failed", func(t *testing.T) { // each may be true, and together they are what the guard of memory is for
		const all = `"total":1000000000000,"done":1000000000000,"next":1000000000000`
		forge(t, honest, filepath.Join(dir, "many"), []string{
			`"seeds":{"from":1,"to":8}`, `"seeds":{"from":1,"to":1000000000000}`, `"total":8,"done":8,"next":8`, all,
		}, line(4_000_000, `{"seed":%d,"broke":["G1"]}`))
		if e, _ := played(t, dir, "simulate", "merge", "many"); e.code != exitWrong || !strings.Contains(e.stderr, `"many": refused: it takes`) {
			t.Error(e)
		}
	})
}
