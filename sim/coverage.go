package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/readfile"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// CoverageVersion is the format of an exploration's state that this program writes and reads. A state is resumed by the
// program that made it and by no other, so any change of its fields raises it.
const CoverageVersion = 3

// Coverage is what an exploration came to so far. Its JSON form is the exploration's state file.
type Coverage struct {
	Version  int             `json:"version"`
	Commit   string          `json:"commit"`
	Seeds    SeedRange       `json:"seeds"`
	Shard    Shard           `json:"shard"`
	Scenario json.RawMessage `json:"scenario"` // what was given; the rest is drawn

	Total  uint64   `json:"total"`            // seeds of the shard
	Done   uint64   `json:"done"`             // of these
	Next   uint64   `json:"next"`             // all before this one are done, counted from 0
	Beyond []uint64 `json:"beyond,omitempty"` // done ones behind it

	Criteria    []string         `json:"criteria"`
	Guarantees  []GuaranteeCount `json:"guarantees"`
	Failed      []FailedSeed     `json:"failed"`
	Repeated    uint64           `json:"repeated"`    // run twice and compared
	Interpreted uint64           `json:"interpreted"` // run twice, the second time with the .lua files themselves, and compared
	Events      int64            `json:"events"`
	VirtualMs   int64            `json:"virtualMs"`
	WallMs      int64            `json:"wallMs"`
	Verdict     check.Outcome    `json:"verdict"`
	SumBytes    int64            `json:"sumBytes"` // what the list of histories' sums had when this was saved

	File string        `json:"-"` // the state file
	Rate float64       `json:"-"` // seeds a second since the start or the resumption
	Left time.Duration `json:"-"` // estimated, 0 if not known
	Old  uint64        `json:"-"` // done before the resumption
}

// GuaranteeCount is how many seeds put a guarantee to the test, and how many broke it.
type GuaranteeCount struct {
	ID        string `json:"id"`
	Exercised uint64 `json:"exercised"`
	Broken    uint64 `json:"broken"`
}

// Missing returns the criteria that no seed has put to the test yet.
func (c *Coverage) Missing() []string {
	var ids []string
	for _, g := range c.Guarantees {
		if g.Exercised == 0 && slices.Contains(c.Criteria, g.ID) {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// Covered says in words which seeds are done.
func (c *Coverage) Covered() string {
	var parts []string
	if c.Next > 0 {
		parts = append(parts, fmt.Sprintf("seeds %d to %d are covered", c.Seeds.From, c.Seeds.seed(c.Shard, c.Next-1)))
		if c.Shard.Of > 1 {
			parts[0] += fmt.Sprintf(" as far as they are in shard %d/%d", c.Shard.Index, c.Shard.Of)
		}
	}
	if n := len(c.Beyond); n > 0 {
		parts = append(parts, fmt.Sprintf("%d behind them", n))
	}
	if len(parts) == 0 {
		return "no seed is covered"
	}
	return strings.Join(parts, " and ")
}

func (c *Coverage) decide() check.Outcome {
	switch {
	case len(c.Failed) > 0:
		return check.Fail
	case c.Done < c.Total || len(c.Missing()) > 0:
		return check.Unknown
	}
	return check.Pass
}

// stateMax bounds a state file: the seeds that failed are in it one by one.
const stateMax = 64 << 20

// state keeps a Coverage on disk. It belongs to one goroutine.
type state struct {
	Coverage
	begin     time.Time
	wall      int64 // ms spent before
	told, put time.Time
	sumFile   *os.File
	sums      *bufio.Writer
}

// How often progress is told and the state is saved.
const (
	tellEvery = time.Second
	saveEvery = 5 * time.Second
)

// stateName is the state file's name without its suffix.
func (x Exploration) stateName() string {
	name := fmt.Sprintf("explore-%d-%d", x.Seeds.From, x.Seeds.To)
	if system := cmp.Or(x.Scenario.System, SystemPolling); system != SystemPolling {
		name += "-" + system
	}
	if x.Shard.Of > 1 {
		name += fmt.Sprintf("-shard-%d-of-%d", x.Shard.Index, x.Shard.Of)
	}
	return filepath.Join(x.Reports, name)
}

func openState(x Exploration) (*state, error) {
	scenario, err := x.Scenario.given()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	st := &state{Coverage: Coverage{
		Version: CoverageVersion, Commit: commit(), Seeds: x.Seeds, Shard: x.Shard, Scenario: scenario,
		Total: x.Seeds.count(x.Shard), Criteria: criteria(x.Scenario.System, x.Scenario.Criteria), Failed: []FailedSeed{},
		File: x.stateName() + ".json",
	}, begin: time.Now()}
	for _, id := range check.IDs(x.Scenario.System) {
		st.Guarantees = append(st.Guarantees, GuaranteeCount{ID: id})
	}
	if err := st.lock(x.stateName() + ".sha256"); err != nil {
		return nil, err
	}
	if x.Resume {
		err = st.resume()
	} else {
		err = st.replaceable(x.KeepGoing)
	}
	if err == nil {
		err = st.cutSums()
	}
	if err != nil {
		return nil, errors.Join(err, st.sumFile.Close())
	}
	st.Verdict = st.decide()
	return st, nil
}

// lock opens the list of sums and keeps every other process from it as long as it is open: two explorations that write the
// same state would each undo what the other saved. On a file system without locks nothing keeps them apart.
func (st *state) lock(list string) (err error) {
	if st.sumFile, err = os.OpenFile(list, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return fmt.Errorf("%w: %w (flag --report)", ErrHarness, err)
	}
	st.sums = bufio.NewWriter(st.sumFile)
	if err := syscall.Flock(int(st.sumFile.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another simulate explores into %s now: wait for its end, or give another --report", ErrState, st.File)
		return errors.Join(err, st.sumFile.Close())
	}
	return nil
}

// cutSums leaves of the list what belongs to the state: one that was killed may have written more since, mostly half a line.
func (st *state) cutSums() error {
	info, err := st.sumFile.Stat()
	switch {
	case err != nil:
	case info.Size() < st.SumBytes:
		return fmt.Errorf("%w: --resume: %s has %d bytes, and had %d when %s was saved: begin anew in another --report", ErrState,
			st.sumFile.Name(), info.Size(), st.SumBytes, st.File)
	default:
		if err = st.sumFile.Truncate(st.SumBytes); err == nil {
			_, err = st.sumFile.Seek(st.SumBytes, io.SeekStart)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w (flag --report)", ErrHarness, err)
	}
	return nil
}

// ErrState: the state that an exploration left behind stands in the way of this one, or cannot be gone on from.
var ErrState = errors.New("saved exploration")

// replaceable refuses to begin in the place of an exploration that is not finished: what it covered would be lost. One that
// stopped at its failure has ended, unless failures were not to stop it.
func (st *state) replaceable(keepGoing bool) error {
	text, err := readfile.Read(st.File, stateMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old struct {
		Done, Total uint64
		Failed      []FailedSeed
	}
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	switch {
	case err != nil:
		return st.unreadable(err)
	case old.Done > 0 && old.Done < old.Total && (keepGoing || len(old.Failed) == 0):
		return fmt.Errorf("%w: %s has %d of %d seeds, which would be lost: go on with --resume, or give another --report",
			ErrState, st.File, old.Done, old.Total)
	}
	return nil
}

func (st *state) unreadable(err error) error {
	return fmt.Errorf("%w: %s cannot be read: %w: remove it, or give another --report", ErrState, st.File, err)
}

// resume reads what the same exploration left behind, if there is anything. What another program, or another exploration, left
// is refused: its seeds may be other runs.
func (st *state) resume() error {
	text, err := readfile.Read(st.File, stateMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var v struct {
		Version int    `json:"version"`
		Commit  string `json:"commit"`
	}
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	var old Coverage
	var compact bytes.Buffer
	if err == nil && v.Version == CoverageVersion {
		if err = json.Unmarshal(text, &old); err == nil {
			err = json.Compact(&compact, old.Scenario)
		}
	}
	switch {
	case err != nil:
		return st.unreadable(err)
	case v.Version != CoverageVersion:
		return fmt.Errorf("%w: --resume: %s has version %d (commit %q), this program reads version %d (commit %q): "+
			"begin anew in another --report", ErrState, st.File, v.Version, v.Commit, CoverageVersion, st.Commit)
	case old.Commit != st.Commit:
		return fmt.Errorf("%w: --resume: %s was made by commit %q, this program is %q: begin anew in another --report",
			ErrState, st.File, old.Commit, st.Commit)
	case !bytes.Equal(compact.Bytes(), st.Scenario):
		return fmt.Errorf("%w: --resume: %s explored %s, now given is %s: give the same flags or another --report",
			ErrState, st.File, compact.Bytes(), st.Scenario)
	case old.Total != st.Total || old.Next > old.Total || old.Done > old.Total ||
		old.Done != old.Next+uint64(len(old.Beyond)) || len(old.Guarantees) != len(st.Guarantees):
		return fmt.Errorf("%w: --resume: %s contradicts itself: begin anew in another --report", ErrState, st.File)
	}
	old.File, old.Old, old.Scenario = st.File, old.Done, st.Scenario
	st.Coverage, st.wall = old, old.WallMs
	return nil
}

// sameProgram runs the seed again that was done last, and refuses to resume if its history is another one: commits do not
// tell everything about a program that was built from changed files.
func (x Exploration) sameProgram(ctx context.Context, st *state) error {
	text, err := os.ReadFile(st.sumFile.Name())
	if err != nil {
		return fmt.Errorf("%w: --resume: %w: begin anew in another --report", ErrState, err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	sum, number, ok := strings.Cut(lines[len(lines)-1], "  ")
	seed, err := strconv.ParseUint(number, 10, 64)
	switch {
	case !ok || err != nil || uint64(len(lines)) != st.Old:
		return fmt.Errorf("%w: --resume: %s is not the list of the %d seeds that %s has: begin anew in another --report", ErrState,
			st.sumFile.Name(), st.Old, st.File)
	case sum == "":
		return nil // the seed has no history: it panicked
	}
	c, plan, err := x.Scenario.Swarm(seed)
	if err != nil {
		return err
	}
	again := history.NewSum()
	out, err := runVirtual(ctx, c, plan, x.Bend, func(e history.Event) { again.Add(&e) }, nil)
	if err != nil || out.Interrupted || again.String() == sum {
		return err
	}
	return fmt.Errorf("%w: --resume: seed %d had a history of sha256 %s and has one of %s now: another program (commit %q) explored "+
		"it than this one (commit %q): begin anew in another --report", ErrState, seed, sum, again, st.Commit, commit())
}

// take enters one seed.
func (st *state) take(r seedResult) {
	st.Done++
	if r.index == st.Next {
		st.Next++
		for i := slices.Index(st.Beyond, st.Next); i >= 0; i = slices.Index(st.Beyond, st.Next) {
			st.Beyond = slices.Delete(st.Beyond, i, i+1)
			st.Next++
		}
	} else {
		st.Beyond = append(st.Beyond, r.index)
	}
	for i := range st.Guarantees {
		g := &st.Guarantees[i]
		if slices.Contains(r.exercised, g.ID) {
			g.Exercised++
		}
		if r.failed != nil && slices.Contains(r.failed.Broke, g.ID) {
			g.Broken++
		}
	}
	if r.failed != nil {
		st.Failed = append(st.Failed, *r.failed)
	}
	if r.repeated {
		st.Repeated++
	}
	if r.interpreted {
		st.Interpreted++
	}
	st.Events += r.events
	st.VirtualMs += r.virtual.Milliseconds()
	fmt.Fprintf(st.sums, "%s  %d\n", r.sum, r.seed) // an error shows at the next flush
}

// tick tells and saves, each when its time has come.
func (st *state) tick(progress func(Coverage)) error {
	now := time.Now()
	if now.Sub(st.told) >= tellEvery && progress != nil {
		st.told = now
		st.measure()
		progress(st.Coverage)
	}
	if now.Sub(st.put) < saveEvery {
		return nil
	}
	st.put = now
	return st.save()
}

func (st *state) measure() {
	spent := time.Since(st.begin)
	st.WallMs = st.wall + spent.Milliseconds()
	if st.Rate = float64(st.Done-st.Old) / max(spent.Seconds(), 1e-9); st.Rate > 0 {
		st.Left = time.Duration(float64(st.Total-st.Done) / st.Rate * float64(time.Second))
	}
	st.Verdict = st.decide()
}

// save replaces the state file as a whole.
func (st *state) save() error {
	st.measure()
	err := st.sums.Flush()
	if err == nil {
		st.SumBytes, err = st.sumFile.Seek(0, io.SeekCurrent)
	}
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(st.Coverage, "", "  ")
	}
	if err == nil {
		err = os.WriteFile(st.File+".tmp", append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(st.File+".tmp", st.File)
	}
	if err != nil {
		_ = os.Remove(st.File + ".tmp") // half of it, or none
		return fmt.Errorf("%w: save %s: %w", ErrHarness, st.File, err)
	}
	return nil
}

func (st *state) close() error { return errors.Join(st.save(), st.sumFile.Close()) }
