package redisstore

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leasestorm/leasestorm/internal/core"
)

const (
	fenceSuffix = ":fence"
	groupSuffix = ":group"
)

// hashTag returns the part of key that Redis Cluster hashes, or "" if it hashes the whole key.
func hashTag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return ""
	}
	tag, _, ok := strings.Cut(rest, "}")
	if !ok {
		return ""
	}
	return tag
}

// keys builds the keys of one request in one allocation.
type keys struct {
	buf  strings.Builder
	ends []int
}

const keyBytes = 64

func newKeys(count int) *keys {
	k := &keys{ends: make([]int, 0, count)}
	k.buf.Grow(count * keyBytes)
	return k
}

func (k *keys) end() { k.ends = append(k.ends, k.buf.Len()) }

func (k *keys) add(prefix, id string) {
	k.buf.WriteString(prefix)
	k.buf.WriteString(id)
	k.end()
}

func (k *keys) items(prefix string, items []core.Item) {
	for i := range items {
		k.add(prefix, items[i].ID)
	}
}

// fence adds a lease's fence key, in the slot of the lease.
func (k *keys) fence(prefix, id string, tagged bool) {
	if tagged {
		k.buf.WriteString(prefix)
		k.buf.WriteString(id)
	} else {
		k.buf.WriteByte('{')
		k.buf.WriteString(prefix)
		k.buf.WriteString(id)
		k.buf.WriteByte('}')
	}
	k.buf.WriteString(fenceSuffix)
	k.end()
}

func (k *keys) list() []string {
	all := k.buf.String()
	out := make([]string, len(k.ends))
	start := 0
	for i, end := range k.ends {
		out[i] = all[start:end]
		start = end
	}
	return out
}

// NameMax bounds the ID of an instance or of a lease, in bytes.
const NameMax = 512

// checkName returns why id cannot be a name. Spaces separate names in notices.
func checkName(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("the %s ID is empty", what)
	case len(id) > NameMax:
		return fmt.Errorf("the %s ID begins with %q and has %d bytes; at most %d are allowed", what, cut(id), len(id), NameMax)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}):
		return fmt.Errorf("the %s ID %q holds spaces, control characters or invalid UTF-8", what, id)
	}
	return nil
}

// CheckInstance returns why id cannot be an instance's ID, or nil if it can.
func CheckInstance(id string) error {
	if id == nobody {
		return fmt.Errorf("the instance ID is %q, which is reserved for leases without an owner", id)
	}
	return checkName("instance", id)
}

// CheckLease returns why id cannot be a lease's ID in this store, or nil if it can.
func (w Wire) CheckLease(id string) error {
	if w.opt.ExactKeys && (id == w.opt.EpochKey || id == w.opt.groupKey() || strings.HasSuffix(id, fenceSuffix)) {
		return fmt.Errorf("the key %q is that of the epoch or of a fence, not of a lease", id)
	}
	if w.tagged && strings.HasSuffix(id, fenceSuffix) {
		return fmt.Errorf("the lease ID %q ends with %q, which names fences where LeasePrefix carries a hash tag", id,
			fenceSuffix)
	}
	return checkName("lease", id)
}

// Glob escapes the pattern characters of SCAN's MATCH and of an ACL.
func Glob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
