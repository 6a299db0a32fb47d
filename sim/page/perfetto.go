package page

import (
	"bufio"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// TraceName is a run as Perfetto's UI reads it (ui.perfetto.dev), in the run's folder.
const TraceName = "trace.perfetto"

// Fields of Perfetto's protos: Trace, TracePacket, TrackDescriptor, TrackEvent and DebugAnnotation.
const (
	tracePacket = 1

	packetTime       = 8
	packetSequence   = 10
	packetEvent      = 11
	packetDescriptor = 60

	trackID     = 1
	trackName   = 2
	trackParent = 5

	eventAnnotation = 4
	eventType       = 9
	eventTrack      = 11
	eventName       = 23

	annotationText = 6
	annotationName = 10
)

// Types of a TrackEvent.
const (
	sliceBegin = 1
	sliceEnd   = 2
	instant    = 3
)

// SaveTrace reads a judged run's history and writes TraceName into its folder: a track per node with its processes, per lease and node
// with terms and polls, and one per fault. What cannot be written is an error, never a panic.
func SaveTrace(to string, r report.Report) (err error) {
	name := filepath.Join(to, TraceName)
	file, err := files.Create(name)
	if err != nil {
		return fmt.Errorf("page: %s cannot be written: %w", name, err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = file.Commit(fmt.Errorf("page: %s cannot be made: %v", name, p))
		}
	}()
	out := bufio.NewWriterSize(file, 1<<16)
	t := &trace{out: out, m: build(to, r), tracks: map[string]uint64{}}
	t.nodes()
	t.terms()
	t.faults()
	t.polls(to)
	if err := file.Commit(out.Flush()); err != nil {
		return fmt.Errorf("page: %s cannot be written: %w", name, err)
	}
	return nil
}

// trace writes packets. Perfetto sorts them by their time; an error of out shows when it is flushed.
type trace struct {
	out    *bufio.Writer
	m      *model
	tracks map[string]uint64
}

// message appends a message as a field.
func message(to []byte, field protowire.Number, of []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), of)
}

func number(to []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), n)
}

func text(to []byte, field protowire.Number, s string) []byte { return message(to, field, []byte(s)) }

func (t *trace) packet(p []byte) {
	_, _ = t.out.Write(message(nil, tracePacket, number(p, packetSequence, 1)))
}

// track returns the number of the track of that name under a parent (0: none), and describes it when it is first asked for.
func (t *trace) track(parent uint64, name string) uint64 {
	key := fmt.Sprintf("%d %s", parent, name)
	id, known := t.tracks[key]
	if known {
		return id
	}
	id = uint64(len(t.tracks) + 1)
	t.tracks[key] = id
	d := text(number(nil, trackID, id), trackName, name)
	if parent != 0 {
		d = number(d, trackParent, parent)
	}
	t.packet(message(nil, packetDescriptor, d))
	return id
}

func (t *trace) event(track uint64, at int64, kind uint64, name string, notes [][2]string) {
	e := number(number(nil, eventType, kind), eventTrack, track)
	if name != "" {
		e = text(e, eventName, name)
	}
	for _, n := range notes {
		e = message(e, eventAnnotation, text(text(nil, annotationName, n[0]), annotationText, n[1]))
	}
	t.packet(message(number(nil, packetTime, uint64(max(0, at))), packetEvent, e))
}

// slice writes what lasted from one moment to another, in ns.
func (t *trace) slice(track uint64, from, to int64, name string, notes ...[2]string) {
	t.event(track, from, sliceBegin, name, notes)
	t.event(track, max(from, to), sliceEnd, "", nil)
}

func (t *trace) nodes() {
	parent := t.track(0, "nodes")
	for _, n := range t.m.Nodes {
		id := t.track(parent, n.Name)
		for _, l := range n.Lives {
			to := l[1]
			if to < 0 {
				to = t.m.End
			}
			t.slice(id, l[0]*perMs, to*perMs, "process")
		}
	}
}

// of is the track of what a node does with a session's lease: two who have it at once stand below each other.
func (t *trace) of(session, node int, what string) uint64 {
	name := "?"
	if node >= 0 {
		name = t.m.Nodes[node].Name
	}
	lease := t.track(t.track(0, "leases"), t.m.Sessions[session].Name)
	return t.track(lease, name+" "+what)
}

func (t *trace) terms() {
	all := &t.m.Terms
	for i, s := range all.Session {
		if s >= 0 {
			t.slice(t.of(int(s), int(all.Node[i]), "trusts"), all.From[i]*perMs, (all.From[i]+all.For[i])*perMs, "term",
				[2]string{"fence", fmt.Sprint(int64(all.Fence[i]))}, [2]string{"end", all.Hows[all.How[i]]})
		}
	}
}

func (t *trace) faults() {
	parent := t.track(0, "faults")
	for _, f := range t.m.Faults {
		whom := ""
		switch {
		case f.Node >= 0:
			whom = " " + t.m.Nodes[f.Node].Name
		case f.Session >= 0:
			whom = " " + short(t.m.Sessions[f.Session].Name)
		}
		id := t.track(parent, fmt.Sprintf("%d %s%s", f.N, f.Kind, whom))
		if f.To > f.From {
			t.slice(id, f.From*perMs, f.To*perMs, f.Kind)
		} else {
			t.event(id, f.From*perMs, instant, f.Kind, nil)
		}
	}
	for _, b := range t.m.Breaks {
		t.event(t.track(0, "breaks"), b.From*perUs, instant, b.Guarantee, nil)
	}
}

// polls reads the history once more. What cannot be read of it is missing.
func (t *trace) polls(in string) {
	nodes, sessions, instances := map[string]int{}, map[string]int{}, map[string]int{}
	for i, n := range t.m.Nodes {
		nodes[n.Name] = i
	}
	for i, s := range t.m.Sessions {
		sessions[s.Name] = i
	}
	type poll struct {
		track uint64
		at    int64
		fence int64
	}
	open := map[int64]poll{}
	for e, err := range history.Open(in) {
		if err != nil {
			break
		}
		node, named := nodes[shown(e.Node)]
		if named && e.Instance != "" && len(instances) < namesMax {
			instances[e.Instance] = node
		}
		session, known := sessions[shown(e.Session)]
		if !known {
			continue
		}
		if node, named = instances[e.Instance]; !named {
			node = -1
		}
		switch e.Kind {
		case history.Arrived:
			open[e.N] = poll{t.of(session, node, "polls"), e.T, e.Fence}
		case history.Served, history.Aborted:
			if p, begun := open[e.N]; begun {
				t.slice(p.track, p.at, e.T, e.Kind.String(), [2]string{"fence", fmt.Sprint(p.fence)})
				delete(open, e.N)
			}
		case history.Rejected:
			t.event(t.of(session, node, "polls"), e.T, instant, e.Kind.String(),
				[][2]string{{"fence", fmt.Sprint(e.Fence)}, {"why", shown(e.Reason)}})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(open)) {
		p := open[n]
		t.event(p.track, p.at, instant, "not answered", nil)
	}
}
