package core

// hashID returns the 64-bit FNV-1a hash of s. Only rank uses it, which mixes two of them.
func hashID(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// rank returns the weight of a session at an instance: the session prefers the instance with the highest rank. FNV-1a avalanches badly,
// and concatenated IDs are ambiguous, so each ID is hashed once and a finalizer mixes the pair.
func rank(instance, session uint64) uint64 {
	x := instance ^ session
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
