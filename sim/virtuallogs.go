package sim

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// judged passes a virtual instance's log entry to the judge, by field names, as the judge reads files.
func judged(logs *nodelogs.Logs, e *virtual.LogEntry) {
	entry := nodelogs.Entry{HasTime: true} // the shell's encoder adds the time to every entry
	for i := range e.Fields {
		switch f := &e.Fields[i]; f.Key {
		case "event":
			entry.Event = f.Text
		case "instance":
			entry.Instance = f.Text
		case "endpoint":
			entry.Endpoint = f.Text
		case "reason":
			entry.Reason = f.Text
		case "fence":
			entry.Fence, entry.HasFence = f.Number, true
		}
	}
	logs.Add(&entry)
}

// logFiles writes the logs of virtual nodes, one file per node, in the format of processes.
type logFiles struct {
	dir    string
	files  map[string]*logFile
	fields []zap.Field
	err    error
}

type logFile struct {
	file *os.File
	buf  *bufio.Writer
	core zapcore.Core
}

func newLogFiles(dir string) *logFiles { return &logFiles{dir: dir, files: map[string]*logFile{}} }

func (l *logFiles) of(node string) *logFile {
	f := l.files[node]
	if f == nil && l.err == nil {
		f, l.err = l.open(node)
	}
	return f
}

// output writes a part of a program's standard error.
func (l *logFiles) output(node string, p []byte) {
	if f := l.of(node); l.err == nil {
		_, l.err = f.buf.Write(p)
	}
}

// write writes one entry. close returns the first error.
func (l *logFiles) write(e *virtual.LogEntry) {
	f := l.of(e.Node)
	if l.err != nil {
		return
	}
	l.fields = zaplog.Append(l.fields[:0], e.Fields)
	l.err = f.core.Write(zapcore.Entry{
		Level: zapcore.Level(e.Level), Time: time.Unix(0, e.Wall).UTC(), Message: e.Message,
	}, l.fields)
}

func (l *logFiles) open(node string) (*logFile, error) {
	file, err := os.Create(filepath.Join(l.dir, node+".log"))
	if err != nil {
		return nil, err
	}
	f := &logFile{file: file, buf: bufio.NewWriter(file)}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.AddSync(f.buf), zapcore.DebugLevel)
	f.core = core.With([]zap.Field{zap.String("node", node)})
	l.files[node] = f
	return f, nil
}

func (l *logFiles) close() error {
	for _, f := range l.files {
		l.err = errors.Join(l.err, f.buf.Flush(), f.file.Close())
	}
	if l.err != nil {
		return fmt.Errorf("write the nodes' logs: %w", l.err)
	}
	return nil
}
