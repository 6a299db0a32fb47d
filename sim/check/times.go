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

// Times are measured times of one kind, as report.json and explorations have them. Their buckets make what is read off them at most a 64th
// (1.6 %) too large, and never larger than the maximum.
type Times struct {
	Of  string `json:"of"` // what was measured
	N   uint64 `json:"n"`
	P50 millis `json:"p50Ms"`
	P99 millis `json:"p99Ms"`
	Max millis `json:"maxMs"`

	Buckets Buckets `json:"buckets"`
}

// Join adds another's times.
func (t *Times) Join(o Times) {
	t.Max = max(t.Max, o.Max)
	t.Buckets = t.Buckets.join(o.Buckets)
	t.read()
}

// JoinTimes adds measured times up, by what was measured, in the order in which that is met.
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

// read computes from the buckets what is reported of them.
func (t *Times) read() {
	t.N = t.Buckets.count()
	t.P50, t.P99 = t.at(50), t.at(99)
}

// at returns the time that so many percent of those measured do not exceed.
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

// Buckets are those that hold something, in order.
type Buckets []Bucket

// Bucket is how many times fell into the bucket of that number.
type Bucket struct {
	At int
	N  uint64
}

// Of each power of two, in microseconds, there are as many buckets as half of what stands below the first; the last power holds a day.
const (
	bucketBits = 6
	powers     = 32
	bucketsLen = powers << bucketBits
)

// bucketOf returns the number of the bucket that a time falls into.
func bucketOf(ns int64) int {
	us := uint64(max(0, ns)) / uint64(time.Microsecond)
	power := max(0, bits.Len64(us)-bucketBits-1)
	return min(power<<bucketBits+int(us>>power), bucketsLen-1)
}

// upper is the longest time, in whole microseconds, that falls into the bucket.
func upper(at int) int64 {
	power := max(0, at>>bucketBits-1)
	return (int64(at-power<<bucketBits+1)<<power - 1) * int64(time.Microsecond)
}

// Longest is the longest time that falls into the bucket.
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

// timesMax is more than any exploration measures, and few enough that sums do not overflow.
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

// Consistent reports whether what is reported of the times is what their buckets hold.
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
	counts []uint64 // by bucket; nil: nothing was measured
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
