package core

// hashID is FNV-1a, 64 bits. It is not used raw: rank mixes two of them.
func hashID(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// rank is the weight of a session at an instance: the higher, the rather it goes there. FNV-1a avalanches badly and
// concatenated IDs are ambiguous, so each ID is hashed once and the pair is put through a finalizer (docs/guarantees.md, G6).
func rank(instance, session uint64) uint64 {
	x := instance ^ session
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
