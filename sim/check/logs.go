package check

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Logs gives the judge what the nodes logged (G12).
type Logs interface {
	// Nodes names the slots that have a log, in a fixed order.
	Nodes() ([]string, error)
	// Lines yields the lines of one node's log, in order. A line is valid until the next; an error is the last element.
	Lines(node string) iter.Seq2[[]byte, error]
}

// DirLogs reads logs/<node>.log files of a run's folder.
type DirLogs string

// logSuffix ends the name of a node's log.
const logSuffix = ".log"

// Nodes implements Logs. A folder that does not exist holds no logs.
func (d DirLogs) Nodes() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var nodes []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), logSuffix); ok && e.Type().IsRegular() {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes, err
}

// Lines implements Logs. Of a line longer than 64 KiB only the end is seen, which is no entry.
func (d DirLogs) Lines(node string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := os.Open(filepath.Join(string(d), node+logSuffix))
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, 64<<10)
		for {
			line, err := in.ReadSlice('\n')
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case len(line) > 0 && !yield(line, nil):
				return
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(nil, err)
				return
			}
		}
	}
}
