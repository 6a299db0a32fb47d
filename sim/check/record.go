package check

import "github.com/leasestorm/leasestorm/sim/history"

// record holds the events of a judged run, for questions about any moment of it. Its rows take half the memory of events: each name is
// kept once.
type record struct {
	chunks [][]row
	names  []string
	ids    map[string]uint32
	kept   int32 // number of events
}

type row struct {
	t, fence, until, n              int64
	node, instance, session, reason uint32
	kind                            history.Kind
}

const chunkLen = 1 << 14

func (r *record) add(e *history.Event) {
	if r.kept%chunkLen == 0 {
		r.chunks = append(r.chunks, make([]row, 0, chunkLen))
	}
	last := &r.chunks[len(r.chunks)-1]
	*last = append(*last, row{
		e.T, e.Fence, e.Until, e.N, r.id(e.Node), r.id(e.Instance), r.id(e.Session), r.id(e.Reason), e.Kind,
	})
	r.kept++
}

// seen returns the number of events so far.
func (w *world) seen() int32 { return w.record.kept }

func (r *record) id(name string) uint32 {
	id, known := r.ids[name]
	if !known {
		if r.ids == nil {
			r.ids = map[string]uint32{}
		}
		id = uint32(len(r.names))
		r.ids[name], r.names = id, append(r.names, name)
	}
	return id
}

func (r *record) event(at int32) history.Event {
	x := &r.chunks[at/chunkLen][at%chunkLen]
	return history.Event{
		T: x.t, Kind: x.kind, Node: r.names[x.node], Instance: r.names[x.instance], Session: r.names[x.session], Fence: x.fence,
		Until: x.until, N: x.n, Reason: r.names[x.reason],
	}
}
