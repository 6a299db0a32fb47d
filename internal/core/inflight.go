package core

import (
	"cmp"
	"slices"
)

type inflight struct {
	op     Op
	leases []*lease // aligned with op.Items; an item counts only while lease.Op() is still this op
	probe  bool     // it only finds out whether Redis answers, and in which epoch
}

// inflights holds the ops under way, in order of Op.Seq. Mostly there is one or none.
type inflights []inflight

func (f inflights) at(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(f, seq, func(in inflight, seq uint64) int { return cmp.Compare(in.op.Seq, seq) })
}

// find returns nil for an op that is not under way. The result is valid until the next op is added or taken.
func (f inflights) find(seq uint64) *inflight {
	if i, ok := f.at(seq); ok {
		return &f[i]
	}
	return nil
}

// take removes an op and returns it. ok is false if it is not under way.
func (f *inflights) take(seq uint64) (in inflight, ok bool) {
	i, ok := f.at(seq)
	if ok {
		in = (*f)[i]
		*f = slices.Delete(*f, i, i+1)
	}
	return in, ok
}

func (f inflights) any(kinds ...OpKind) bool {
	return slices.ContainsFunc(f, func(in inflight) bool { return slices.Contains(kinds, in.op.Kind) })
}
