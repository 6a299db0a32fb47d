// Package nodelogs reads the structured logs of a run's nodes, as far as the judge needs them: what each instance logged of its leases.
package nodelogs

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unique"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Logs holds the nodes' entries about leases. It is not safe for concurrent use.
type Logs struct {
	Said    Statements
	entries int
	bare    int    // entries that lack a field
	example string // first entry that lacks a field
	err     error

	files map[string]string // of a folder: SHA-256 in hexadecimal, by file name; nil: all nodes' entries are added
	nodes map[string]bool   // of a folder: nodes whose log has a line
}

// Statements holds what instances said, or logged, of their leases: by instance and kind, in order.
type Statements map[string]map[history.Kind][]Statement

// Statement is one of them.
type Statement struct {
	Endpoint unique.Handle[string]
	Fence    int64
	Reason   bool // it has a reason
}

// Add appends a statement.
func (s Statements) Add(instance string, kind history.Kind, endpoint string, fence int64, reason string) {
	kinds := s[instance]
	if kinds == nil {
		kinds = map[history.Kind][]Statement{}
		s[instance] = kinds
	}
	kinds[kind] = append(kinds[kind], Statement{unique.Make(endpoint), fence, reason != ""})
}

// Needed reports whether every event of that kind needs an entry.
func Needed(k history.Kind) bool {
	return k >= history.AcquireFailed && k <= history.Released && k != history.RenewStart
}

// Entry is one structured entry of a node's log, with the fields that the judge reads.
type Entry struct {
	Event    string `json:"event"`
	Instance string `json:"instance"`
	Endpoint string `json:"endpoint"`
	Reason   string `json:"reason"`
	Fence    int64  `json:"-"`
	HasFence bool   `json:"-"`
	HasTime  bool   `json:"-"`
}

// New returns empty Logs, for the entries of all nodes.
func New() *Logs {
	return &Logs{Said: Statements{}}
}

// Read reads the <node>.log files in the folder name of a run's folder. A missing folder holds no logs. Err returns an error
// for a log that cannot be read. A log above logMax bytes counts as missing.
func Read(run, name string) *Logs {
	l := New()
	l.files, l.nodes = map[string]string{}, map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(run, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.err = fmt.Errorf("logs: %w", err)
	}
	for _, e := range entries {
		if node, ok := strings.CutSuffix(e.Name(), logSuffix); ok {
			if err := l.read(run, filepath.Join(name, e.Name()), node); err != nil {
				l.err = fmt.Errorf("log of %s: %w", node, err)
			}
		}
	}
	return l
}

const logSuffix = ".log"

// logMax is far more than a node logs at the debug level: a day of a hundred sessions takes some 300 MB.
const logMax = 1 << 30

// unread replaces the sum of a log that is too large.
const unread = "that of too large a file to be read"

func (l *Logs) read(run, name, node string) error {
	f, err := files.Open(run, name, logMax)
	file := filepath.Base(name)
	switch {
	case errors.Is(err, files.ErrTooLarge):
		l.files[file] = unread
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	sum := sha256.New()
	err = lines(io.TeeReader(f, sum), func(line []byte) {
		l.nodes[node] = true
		l.line(line)
	})
	l.files[file] = hex.EncodeToString(sum.Sum(nil))
	return err
}

// Err returns why a log could not be read, and nil if all could.
func (l *Logs) Err() error { return l.err }

// Sums returns the SHA-256 of the files that were read, in hexadecimal, by name. A nil Logs has none.
func (l *Logs) Sums() map[string]string {
	if l == nil {
		return nil
	}
	return l.files
}

// lines calls each with r's lines.
func lines(r io.Reader, each func([]byte)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			each(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// line adds the entry of a log line, if it has one. A panic's trace has none, nor has a line that a kill cut off.
func (l *Logs) line(line []byte) {
	var j struct {
		Entry
		Fence *int64          `json:"fence"`
		TS    json.RawMessage `json:"ts"`
	}
	if json.Unmarshal(line, &j) != nil {
		return
	}
	e := j.Entry
	e.HasFence, e.HasTime = j.Fence != nil, len(j.TS) > 0
	if e.HasFence {
		e.Fence = *j.Fence
	}
	l.Add(&e)
}

// Add adds one entry. It ignores entries that no event needs.
func (l *Logs) Add(e *Entry) {
	kind, ok := history.ParseKind(e.Event)
	if !ok || !Needed(kind) {
		return
	}
	l.entries++
	l.Said.Add(e.Instance, kind, e.Endpoint, e.Fence, e.Reason)
	fenced := e.HasFence || kind == history.AcquireFailed // nothing was granted
	if e.Endpoint == "" || e.Instance == "" || !fenced || !e.HasTime {
		if l.bare++; l.bare == 1 {
			l.example = fmt.Sprintf("%+v", *e)
		}
	}
}

// Bare returns how many entries lack an instance, an endpoint, a fence or a time, and the first of them.
func (l *Logs) Bare() (n int, first string) { return l.bare, l.example }

// Entries returns how many entries about leases were added.
func (l *Logs) Entries() int64 { return int64(l.entries) }

// Blind reports whether a node's events cannot be judged, because its log is missing or empty.
func (l *Logs) Blind(node string) bool { return l.files != nil && !l.nodes[node] }
