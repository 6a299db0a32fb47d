package explore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
)

// state keeps a Coverage on disk. It is not safe for concurrent use.
type state struct {
	Coverage
	begin     time.Time
	old       uint64 // finished before the resumption
	wall      int64  // ms spent before the resumption
	told, put time.Time
	lock      *os.File
}

// Intervals of progress reports and of saving.
const (
	tellEvery = time.Second
	saveEvery = 5 * time.Second
)

func openState(x Exploration) (*state, error) {
	scenario, err := x.Scenario.Given()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sim.ErrHarness, err)
	}
	made, err := program()
	if err != nil {
		return nil, fmt.Errorf("%w: which program this is: %w", sim.ErrHarness, err)
	}
	st := &state{Coverage: Coverage{
		Identity: Identity{CoverageVersion, sim.DrawVersion, made, x.Seeds, x.Shard, scenario},
		Total:    x.Seeds.count(x.Shard), Criteria: criteria(x.Scenario.System, x.Scenario.Criteria),
		File: x.StateFile(),
	}, begin: time.Now()}
	for _, id := range check.IDs(x.Scenario.System) {
		st.Guarantees = append(st.Guarantees, GuaranteeCount{ID: id})
	}
	if err := st.alone(x.stateName() + ".lock"); err != nil {
		return nil, err
	}
	if x.Resume {
		err = st.resume()
	} else {
		err = st.replaceable(x.KeepGoing)
	}
	if err != nil {
		return nil, errors.Join(err, st.unlock())
	}
	st.Verdict = st.decide()
	return st, nil
}

// alone locks the state until unlock, because two writers would lose results. On a file system without locks it has no effect.
func (st *state) alone(file string) error {
	for {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return fmt.Errorf("%w: %w (flag --report)", sim.ErrHarness, err)
		}
		if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: another simulate explores into %s now: wait for its end, or give another --report", ErrState, st.File)
			return errors.Join(err, f.Close())
		}
		there, err := os.Lstat(file)
		if mine, merr := f.Stat(); err == nil && merr == nil && os.SameFile(mine, there) {
			st.lock = f
			return nil
		}
		if err := f.Close(); err != nil { // the previous owner removed the file meanwhile, so this lock is on a deleted file
			return fmt.Errorf("%w: %w", sim.ErrHarness, err)
		}
	}
}

func (st *state) unlock() error {
	return errors.Join(os.Remove(st.lock.Name()), st.lock.Close())
}

// ErrState means that the state of an earlier exploration prevents this one, or cannot be resumed.
var ErrState = errors.New("saved exploration")

// replaceable refuses to replace an unfinished exploration. One that stopped at a failure is finished, unless keepGoing is set.
func (st *state) replaceable(keepGoing bool) error {
	old, err := readCoverage(st.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !errors.Is(err, errVersion):
		return st.unreadable(err)
	case old.Done > 0 && old.Done < old.Total && (keepGoing || len(old.Failed) == 0):
		return fmt.Errorf("%w: %s has %d of %d seeds, which would be lost: go on with --resume, or give another --report",
			ErrState, st.File, old.Done, old.Total)
	}
	return nil
}

func (st *state) unreadable(err error) error {
	return fmt.Errorf("%w: %w: remove it, or give another --report", ErrState, err)
}

// program returns the source of this program or, if that is unknown, the hash of its file. Different programs have different values.
var program = sync.OnceValues(func() (string, error) {
	if from := version.Source(); from != "" {
		return from, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of sha256:%x", cmp.Or(sim.Commit(), "none"), sum.Sum(nil)), nil
})

// resume reads the state of the same exploration, if any. It refuses another program's or exploration's, whose runs may differ.
func (st *state) resume() error {
	old, err := readCoverage(st.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errVersion):
		return fmt.Errorf("%w: --resume: %w: begin anew in another --report", ErrState, err)
	case err != nil:
		return st.unreadable(err)
	case old.Commit != st.Commit:
		return fmt.Errorf("%w: --resume: %s was made by commit %q, this program is %q: begin anew in another --report",
			ErrState, st.File, old.Commit, st.Commit)
	case !bytes.Equal(old.Scenario, st.Scenario):
		return fmt.Errorf("%w: --resume: %s explored %s, now given is %s: give the same flags or another --report",
			ErrState, st.File, old.Scenario, st.Scenario)
	case old.Seeds != st.Seeds || old.Shard != st.Shard:
		return fmt.Errorf("%w: --resume: %s is not of these seeds: begin anew in another --report", ErrState, st.File)
	}
	old.File = st.File
	slices.Sort(old.Beyond)
	st.Coverage, st.old, st.wall = old, old.Done, old.WallMs
	return nil
}

func (st *state) take(r seedResult) {
	st.Done++
	if r.index == st.Next {
		n := 0
		for st.Next++; n < len(st.Beyond) && st.Beyond[n] == st.Next; n++ {
			st.Next++
		}
		st.Beyond = slices.Delete(st.Beyond, 0, n)
	} else {
		at, _ := slices.BinarySearch(st.Beyond, r.index)
		st.Beyond = slices.Insert(st.Beyond, at, r.index)
	}
	for i := range st.Guarantees {
		g := &st.Guarantees[i]
		if v := slices.IndexFunc(r.verdicts, func(v check.Verdict) bool { return v.ID == g.ID }); v >= 0 {
			g.count(&r.verdicts[v])
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
	st.Last = &LastSeed{r.seed, r.sum}
	st.Hash.add(r.seed, r.sum)
}

func (st *state) tick(progress func(Progress)) error {
	now := time.Now()
	if now.Sub(st.told) >= tellEvery && progress != nil {
		st.told = now
		progress(st.measure())
	}
	if now.Sub(st.put) < saveEvery {
		return nil
	}
	st.put = now
	return st.save()
}

func (st *state) measure() Progress {
	spent := time.Since(st.begin)
	st.WallMs, st.Verdict = st.wall+spent.Milliseconds(), st.decide()
	p := Progress{Coverage: st.Coverage, Rate: float64(st.Done-st.old) / max(spent.Seconds(), 1e-9)}
	if p.Rate > 0 {
		p.Left = time.Duration(float64(st.Total-st.Done) / p.Rate * float64(time.Second))
	}
	return p
}

func (st *state) save() error {
	st.measure()
	if err := writeCoverage(st.File, &st.Coverage); err != nil {
		return fmt.Errorf("%w: save %s: %w", sim.ErrHarness, st.File, err)
	}
	return nil
}

func (st *state) close() error { return errors.Join(st.save(), st.unlock()) }
