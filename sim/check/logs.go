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

// Logs is what the nodes logged, as far as G12 needs it: summed up per instance, so that no entry is kept. It is not safe for concurrent
// use.
type Logs struct {
	all     bool            // every node's entries are added
	nodes   map[string]bool // those whose log was found → it says anything at all
	said    map[string]*[saidKinds]sum
	seed    maphash.Seed
	entries int
	bare    int    // entries that lack a field
	example string // the first of them
	err     error

	files map[string]string // of a folder: SHA-256 in hexadecimal by file name
}

// saidKinds is how many kinds of events need an entry.
const saidKinds = history.Released - history.AcquireFailed + 1

// needsEntry reports whether an event of the kind needs an entry.
func needsEntry(k history.Kind) bool {
	switch k {
	case history.AcquireFailed, history.Acquired, history.Renewed, history.RenewFailed, history.Lost, history.Released:
		return true
	}
	return false
}

// sum is a number of events or entries of one kind of one instance, whatever their order.
type sum struct {
	count   int
	hash    uint64 // of endpoints and fences
	reasons int    // those that give one
	last    [lastMax]uint64
}

// lastMax is how many of the last of them are known one by one, so that it is known what the sum was before them.
const lastMax = 64

// before returns the hash without the last n; false: that is not known.
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

// begins reports whether one of the two is how the other begins, whatever the order, as far as that is known.
func (s *sum) begins(o *sum) bool {
	if s.count > o.count {
		s, o = o, s
	}
	hash, ok := o.before(o.count - s.count)
	return !ok || hash == s.hash
}

// LogEntry is one structured entry of a node's log, as far as the judge looks at it.
type LogEntry struct {
	Event, Instance, Endpoint, Reason string
	Fence                             int64
	HasFence, HasTime                 bool
}

// NewLogs returns the logs of nodes whose every entry will be added, at the latest with the last event that Judge reads.
func NewLogs() *Logs {
	return &Logs{all: true, nodes: map[string]bool{}, said: map[string]*[saidKinds]sum{}, seed: maphash.MakeSeed()}
}

// ReadLogs reads the <node>.log files of the folder of that name in a run's. One that does not exist holds no logs. What cannot be
// read comes back as the error of Judge. Of a node whose log has more than logMax bytes nothing is read, as if it had none.
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

// logSuffix ends the name of a node's log.
const logSuffix = ".log"

// logMax is far more than the log of a node that logs at the debug level: a day of a hundred sessions takes some 300 MB.
const logMax = 1 << 30

// unread stands in the place of the sum of a log that is too large.
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

// Err returns why a log could not be read, nil if all could.
func (l *Logs) Err() error { return l.err }

// Sums returns the SHA-256 in hexadecimal of the files that were read, by name; none of a nil Logs.
func (l *Logs) Sums() map[string]string {
	if l == nil {
		return nil
	}
	return l.files
}

// lines gives away r's lines, each valid until the next. Of one longer than 64 KiB only the end is seen, which is no entry.
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

// line adds the entry that a line of a log is, if it is one: a panic's trace or a line that was cut off by a kill is none.
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

// Add adds one entry. Those that no event needs are passed over.
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

// Entries is how many entries were added of those that G12 needs.
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

// hash mixes the two, so that sums of hashes do not come out alike by chance.
func (l *Logs) hash(endpoint string, fence int64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := maphash.String(l.seed, endpoint) ^ uint64(fence)*odd
	h = (h ^ h>>32) * odd
	return h ^ h>>29
}

// blind reports whether nothing can be said of a node's events: it has no log, or one in which nothing stands.
func (l *Logs) blind(node string) bool { return !l.all && !l.nodes[node] }
