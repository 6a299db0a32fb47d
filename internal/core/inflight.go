package core

import (
	"cmp"
	"slices"
)

type inflight struct {
	op     Op
	leases []*lease // aligned with op.Items; an item counts only while lease.Op() is still this op
}

// inflights holds the ops under way, in order of Op.Seq. Mostly there is one or none.
type inflights struct {
	all   []*inflight
	spare []*inflight
}

func (f *inflights) add(op Op, leases []*lease) {
	var in *inflight
	if k := len(f.spare); k > 0 {
		in, f.spare = f.spare[k-1], f.spare[:k-1]
	} else {
		in = &inflight{}
	}
	in.op, in.leases = op, append(in.leases, leases...)
	f.all = append(f.all, in)
}

func (f *inflights) at(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(f.all, seq, func(in *inflight, seq uint64) int { return cmp.Compare(in.op.Seq, seq) })
}

// find returns nil for an op that is not under way.
func (f *inflights) find(seq uint64) *inflight {
	if i, ok := f.at(seq); ok {
		return f.all[i]
	}
	return nil
}

// take removes an op and returns it, nil if it is not under way.
func (f *inflights) take(seq uint64) *inflight {
	i, ok := f.at(seq)
	if !ok {
		return nil
	}
	in := f.all[i]
	f.all = slices.Delete(f.all, i, i+1)
	return in
}

// Bounds of the entries kept for reuse: many or large ops under way take memory only as long as they are.
const (
	inflightSpare  = 8
	inflightLeases = 64
)

func (f *inflights) any(kinds ...OpKind) bool {
	return slices.ContainsFunc(f.all, func(in *inflight) bool { return slices.Contains(kinds, in.op.Kind) })
}

// recycle keeps in for reuse. The caller must not use it any more.
func (f *inflights) recycle(in *inflight) {
	if len(f.spare) == inflightSpare || cap(in.leases) > inflightLeases {
		return
	}
	clear(in.leases)
	in.op, in.leases = Op{}, in.leases[:0]
	f.spare = append(f.spare, in)
}

func (in *inflight) probes() bool { return in.op.Kind == OpObserve && len(in.leases) == 0 }
