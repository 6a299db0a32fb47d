// Package measure holds measured times: how many there were, the longest, and how many fell into each of many narrow ranges. From these it
// reads percentiles. It judges nothing.
package measure

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Times are measured times of one kind, as report.json and explorations hold them. Percentiles are read from the buckets: at most a 64th
// (1.6 %) too large, and never above the maximum.
type Times struct {
	Of  string `json:"of"` // name of the measured time
	N   uint64 `json:"n"`
	P50 Millis `json:"p50Ms"`
	P99 Millis `json:"p99Ms"`
	Max Millis `json:"maxMs"`

	Buckets Buckets `json:"buckets"`
}

// NewTimes returns an empty collection of times of that name.
func NewTimes(of string) *Times { return &Times{Of: of, Buckets: Buckets{}} }

// JoinAll merges two lists by kind, in the order in which the kinds occur.
func JoinAll(a, b []Times) []Times {
	all := slices.Clone(a)
	for _, t := range b {
		if i := slices.IndexFunc(all, func(o Times) bool { return o.Of == t.Of }); i >= 0 {
			all[i].Join(t)
		} else {
			all = append(all, t)
		}
	}
	return all
}

// Join adds the times of o, which must be of the same kind.
func (t *Times) Join(o Times) {
	all := Buckets{}
	maps.Copy(all, t.Buckets)
	for at, n := range o.Buckets {
		all[at] += n
	}
	*t = Times{Of: t.Of, N: t.N + o.N, Max: max(t.Max, o.Max), Buckets: all}
	t.Read()
}

// Add adds a time in nanoseconds.
func (t *Times) Add(ns int64) {
	t.N++
	t.Max = max(t.Max, Millis(ns))
	t.Buckets[bucketOf(ns)]++
}

// Read sets the percentiles. Add leaves them as they are.
func (t *Times) Read() { t.P50, t.P99 = t.at(50), t.at(99) }

func (t *Times) String() string {
	short := func(d Millis) string { return time.Duration(d).Round(time.Millisecond / 10).String() }
	t.Read()
	return fmt.Sprintf("p50 %s, p99 %s, max %s", short(t.P50), short(t.P99), short(t.Max))
}

// at returns the time that the given percentage of the measured times does not exceed.
func (t *Times) at(percent uint64) Millis {
	left := (t.N*percent + 99) / 100
	for _, at := range slices.Sorted(maps.Keys(t.Buckets)) {
		if t.Buckets[at] >= left {
			return min(Millis(Longest(at)), t.Max)
		}
		left -= t.Buckets[at]
	}
	return t.Max
}

// Buckets holds the number of times in each bucket that is not empty.
type Buckets map[int]uint64

// From 128 µs on, each power of two has 64 buckets of equal width; below, each microsecond has its own. The last power exceeds a day.
const (
	bucketBits = 6
	powers     = 32
	bucketsLen = powers << bucketBits
)

func bucketOf(ns int64) int {
	us := uint64(max(0, ns)) / uint64(time.Microsecond)
	power := max(0, bits.Len64(us)-bucketBits-1)
	return min(power<<bucketBits+int(us>>power), bucketsLen-1)
}

// Longest returns the longest time in bucket number at.
func Longest(at int) time.Duration {
	power := max(0, at>>bucketBits-1)
	return time.Duration(int64(at-power<<bucketBits+1)<<power-1) * time.Microsecond
}

// MarshalText writes the buckets as "412:3 415:1".
func (b Buckets) MarshalText() ([]byte, error) {
	var all []string
	for _, at := range slices.Sorted(maps.Keys(b)) {
		all = append(all, fmt.Sprintf("%d:%d", at, b[at]))
	}
	return []byte(strings.Join(all, " ")), nil
}

var errBuckets = errors.New("no buckets of measured times")

// timesMax is more than any exploration measures, and so small that sums do not overflow.
const timesMax = 1 << 50

// UnmarshalText reads what MarshalText writes.
func (b *Buckets) UnmarshalText(text []byte) error {
	*b = Buckets{}
	last, sum := -1, uint64(0)
	for token := range strings.FieldsSeq(string(text)) {
		left, right, _ := strings.Cut(token, ":")
		at, err := strconv.Atoi(left)
		n, err2 := strconv.ParseUint(right, 10, 64)
		if errors.Join(err, err2) != nil || at <= last || at >= bucketsLen || n == 0 || n > timesMax || sum+n > timesMax {
			return fmt.Errorf("%w: %.40q", errBuckets, token)
		}
		(*b)[at] = n
		last, sum = at, sum+n
	}
	return nil
}
