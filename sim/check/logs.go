package check

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Logs holds the nodes' logs, as far as G12 needs them: sums per instance, but no entries. It is not safe for concurrent use.
type Logs struct {
	all     bool            // all nodes' entries are added
	nodes   map[string]bool // nodes whose log was found; true: it has a line
	said    map[string]*[saidKinds]sum
	seed    maphash.Seed
	entries int
	bare    int    // entries that lack a field
	example string // first entry that lacks a field
	err     error

	files map[string]string // of a folder: SHA-256 in hexadecimal, by file name
}

const saidKinds = history.Released - history.AcquireFailed + 1

func needsEntry(k history.Kind) bool {
	switch k {
	case history.AcquireFailed, history.Acquired, history.Renewed, history.RenewFailed, history.Lost, history.Released:
		return true
	}
	return false
}

// sum sums up the events or entries of one kind of one instance, regardless of their order.
type sum struct {
	count   int
	hash    uint64 // of endpoints and fences
	reasons int    // number with a reason
	last    [lastMax]uint64
}

// lastMax is how many of the last hashes are kept, so that the sum before them can be computed.
const lastMax = 64

// before returns the hash without the last n, and false if it is unknown.
func (s *sum) before(n int) (hash uint64, ok bool) {
	if n > lastMax || n > s.count {
		return 0, false
	}
	hash = s.hash
	for i := range n {
		hash -= s.last[(s.count-1-i)%lastMax]
	}
	return hash, true
}

// begins reports whether the shorter of the two is a prefix of the longer, regardless of order, as far as that is known.
func (s *sum) begins(o *sum) bool {
	if s.count > o.count {
		s, o = o, s
	}
	hash, ok := o.before(o.count - s.count)
	return !ok || hash == s.hash
}

// LogEntry is one structured entry of a node's log, with the fields that the judge reads.
type LogEntry struct {
	Event, Instance, Endpoint, Reason string
	Fence                             int64
	HasFence, HasTime                 bool
}

// NewLogs returns empty Logs. Add every entry of the nodes before Judge has read the last event.
func NewLogs() *Logs {
	return &Logs{all: true, nodes: map[string]bool{}, said: map[string]*[saidKinds]sum{}, seed: maphash.MakeSeed()}
}

// ReadLogs reads the <node>.log files in the folder name of a run's folder. A missing folder holds no logs. Judge returns an error for a
// log that cannot be read. A log above logMax bytes counts as missing.
func ReadLogs(run, name string) *Logs {
	l := NewLogs()
	l.all, l.files = false, map[string]string{}
	entries, err := os.ReadDir(filepath.Join(run, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.err = fmt.Errorf("check: logs: %w", err)
	}
	for _, e := range entries {
		node, ok := strings.CutSuffix(e.Name(), logSuffix)
		if !ok {
			continue
		}
		if err := l.read(run, filepath.Join(name, e.Name()), node); err != nil {
			l.err = fmt.Errorf("check: log of %s: %w", node, err)
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
		l.nodes[node], l.files[file] = false, unread
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	l.nodes[node] = false
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

// lines calls each with r's lines, each valid until the next. Of a line longer than 64 KiB it passes only the end, which is no entry.
func lines(r io.Reader, each func([]byte)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
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
	if !bytes.Contains(line, []byte(`"event"`)) {
		return
	}
	var entry LogEntry
	if !decode(line, &entry) {
		return
	}
	bare := l.bare
	if l.Add(&entry); bare == 0 && l.bare > 0 {
		l.example = string(bytes.TrimSpace(line))
	}
}

func decode(line []byte, e *LogEntry) bool {
	var j struct {
		Event    string          `json:"event"`
		Instance string          `json:"instance"`
		Endpoint string          `json:"endpoint"`
		Fence    *int64          `json:"fence"`
		Reason   string          `json:"reason"`
		TS       json.RawMessage `json:"ts"`
	}
	if json.Unmarshal(line, &j) != nil {
		return false
	}
	*e = LogEntry{
		Event: j.Event, Instance: j.Instance, Endpoint: j.Endpoint, Reason: j.Reason, HasFence: j.Fence != nil,
		HasTime: len(j.TS) > 0,
	}
	if j.Fence != nil {
		e.Fence = *j.Fence
	}
	return true
}

// Add adds one entry. It ignores entries that no event needs.
func (l *Logs) Add(e *LogEntry) {
	kind, ok := history.ParseKind(e.Event)
	if !ok || !needsEntry(kind) {
		return
	}
	l.entries++
	sumsOf(l.said, e.Instance)[kind-history.AcquireFailed].add(l.hash(e.Endpoint, e.Fence), e.Reason)
	fenced := e.HasFence || kind == history.AcquireFailed // nothing was granted
	if e.Endpoint == "" || e.Instance == "" || !fenced || !e.HasTime {
		if l.bare++; l.bare == 1 {
			l.example = fmt.Sprintf("%+v", *e)
		}
	}
}

// Entries returns how many of the added entries G12 needs.
func (l *Logs) Entries() int64 { return int64(l.entries) }

func sumsOf(m map[string]*[saidKinds]sum, instance string) *[saidKinds]sum {
	s := m[instance]
	if s == nil {
		s = &[saidKinds]sum{}
		m[instance] = s
	}
	return s
}

func (s *sum) add(hash uint64, reason string) {
	s.last[s.count%lastMax] = hash
	s.count++
	s.hash += hash
	if reason != "" {
		s.reasons++
	}
}

// hash mixes endpoint and fence, so that equal sums of hashes are no coincidence.
func (l *Logs) hash(endpoint string, fence int64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := maphash.String(l.seed, endpoint) ^ uint64(fence)*odd
	h = (h ^ h>>32) * odd
	return h ^ h>>29
}

// blind reports whether a node's events cannot be judged, because its log is missing or empty.
func (l *Logs) blind(node string) bool { return !l.all && !l.nodes[node] }
