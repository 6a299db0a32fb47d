// Package leases has examples of adapters for simulate --lease-cmd (docs/lease-protocol.md), each a file that runs alone.
package leases

import (
	"bytes"
	"embed"
	"slices"
)

//go:embed lock.py lock.sh lock.mjs redislock.go
var files embed.FS

// Example is an adapter that simulate new-lease writes.
type Example struct {
	Language string
	File     string
	Source   []byte
	Build    []string // commands that build it
	Command  string   // the value of --lease-cmd, quoted for a shell
	Virtual  string   // the command that storms it in virtual time; "": none
}

var examples = []Example{
	{
		Language: "go", File: "redislock.go", Command: "'--check ./lock'",
		Build:   []string{"go mod init lock && go mod tidy && go build -o lock redislock.go   # change the calls for another library"},
		Virtual: "simulate --engine virtual --scenario locks --lease-go '--check .'",
	},
	{Language: "python", File: "lock.py", Command: "'python3 lock.py'"},
	{Language: "sh", File: "lock.sh", Command: "'sh lock.sh'"},
	{Language: "node", File: "lock.mjs", Command: "'node lock.mjs'"},
}

// Languages returns the languages of the examples.
func Languages() (names []string) {
	for _, e := range examples {
		names = append(names, e.Language)
	}
	return names
}

// Adapter returns the example in one of Languages.
func Adapter(language string) Example {
	e := examples[slices.IndexFunc(examples, func(e Example) bool { return e.Language == language })]
	text, err := files.ReadFile(e.File)
	if err != nil {
		panic(err) // it is embedded
	}
	e.Source = bytes.TrimPrefix(text, []byte("//go:build ignore\n\n")) // which keeps it out of this module's build
	return e
}
