package check

import (
	"errors"
	"fmt"
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
	P50 millis `json:"p50Ms"`
	P99 millis `json:"p99Ms"`
	Max millis `json:"maxMs"`

	Buckets Buckets `json:"buckets"`
}

// Join adds the times of o, which must be of the same kind.
func (t *Times) Join(o Times) {
	t.Max = max(t.Max, o.Max)
	t.Buckets = t.Buckets.join(o.Buckets)
	t.read()
}

// JoinTimes merges two lists by kind, in the order in which the kinds occur.
func JoinTimes(a, b []Times) []Times {
	all := slices.Clone(a)
	for _, t := range b {
		i := slices.IndexFunc(all, func(o Times) bool { return o.Of == t.Of })
		if i < 0 {
			all = append(all, t)
			continue
		}
		all[i].Join(t)
	}
	return all
}

func (t *Times) read() {
	t.N = t.Buckets.count()
	t.P50, t.P99 = t.at(50), t.at(99)
}

// at returns the time that the given percentage of the measured times does not exceed.
func (t *Times) at(percent uint64) millis {
	left := (t.N*percent + 99) / 100
	for _, b := range t.Buckets {
		if b.N >= left {
			return min(millis(upper(b.At)), t.Max)
		}
		left -= b.N
	}
	return t.Max
}

// Buckets holds the buckets that are not empty, in order.
type Buckets []Bucket

// Bucket is the number N of times in bucket number At.
type Bucket struct {
	At int
	N  uint64
}

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

func upper(at int) int64 {
	power := max(0, at>>bucketBits-1)
	return (int64(at-power<<bucketBits+1)<<power - 1) * int64(time.Microsecond)
}

// Longest returns the longest time in the bucket.
func (b Bucket) Longest() time.Duration { return time.Duration(upper(b.At)) }

func (b Buckets) count() (n uint64) {
	for i := range b {
		n += b[i].N
	}
	return n
}

func (b Buckets) join(o Buckets) Buckets {
	all := make(Buckets, 0, max(len(b), len(o)))
	for len(b) > 0 || len(o) > 0 {
		switch {
		case len(o) == 0 || len(b) > 0 && b[0].At < o[0].At:
			all, b = append(all, b[0]), b[1:]
		case len(b) == 0 || o[0].At < b[0].At:
			all, o = append(all, o[0]), o[1:]
		default:
			all = append(all, Bucket{b[0].At, b[0].N + o[0].N})
			b, o = b[1:], o[1:]
		}
	}
	return all
}

// MarshalText writes the buckets as "412:3 415:1".
func (b Buckets) MarshalText() (text []byte, err error) {
	for i := range b {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(b[i].At), 10)
		text = strconv.AppendUint(append(text, ':'), b[i].N, 10)
	}
	return text, nil
}

var errBuckets = errors.New("no buckets of measured times")

// timesMax is more than any exploration measures, and so small that sums do not overflow.
const timesMax = 1 << 50

// UnmarshalText reads what MarshalText writes.
func (b *Buckets) UnmarshalText(text []byte) error {
	*b = nil
	last, sum := -1, uint64(0)
	for token := range strings.FieldsSeq(string(text)) {
		left, right, _ := strings.Cut(token, ":")
		at, err := strconv.Atoi(left)
		n, err2 := strconv.ParseUint(right, 10, 64)
		if errors.Join(err, err2) != nil || at <= last || at >= bucketsLen || n == 0 || n > timesMax || sum+n > timesMax {
			return fmt.Errorf("%w: %.40q", errBuckets, token)
		}
		*b = append(*b, Bucket{at, n})
		last, sum = at, sum+n
	}
	return nil
}

// Consistent reports whether N and the percentiles match the buckets.
func (t Times) Consistent() bool {
	again := t
	again.read()
	return again.N == t.N && again.P50 == t.P50 && again.P99 == t.P99 && t.N > 0 && t.Max >= 0
}

// times collects measured times while a run is judged.
type times struct {
	of     string
	n      uint64
	max    int64
	counts []uint64
}

func (t *times) add(ns int64) {
	if t.counts == nil {
		t.counts = make([]uint64, bucketsLen)
	}
	t.n++
	t.max = max(t.max, ns)
	t.counts[bucketOf(ns)]++
}

func (t *times) summary() Times {
	out := Times{Of: t.of, Max: millis(t.max)}
	for at, n := range t.counts {
		if n > 0 {
			out.Buckets = append(out.Buckets, Bucket{at, n})
		}
	}
	out.read()
	return out
}

func (t *times) String() string {
	short := func(d millis) string { return time.Duration(d).Round(time.Millisecond / 10).String() }
	sum := t.summary()
	return fmt.Sprintf("p50 %s, p99 %s, max %s", short(sum.P50), short(sum.P99), short(sum.Max))
}
