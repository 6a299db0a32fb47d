package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// spanMax caps the durations in replies, because any writer can set an expiry that overflows an int64 of nanoseconds.
const spanMax = int64(100 * 365 * 24 * time.Hour)

func span(n int64, unit time.Duration) int64 {
	return min(max(0, n), spanMax/int64(unit)) * int64(unit)
}

func decodeHead(reply []any, a *core.Answer) ([]any, error) {
	if len(reply) < 5 {
		return nil, fmt.Errorf("the reply of Redis holds %d elements of at least 5", len(reply))
	}
	epoch, ok1 := reply[0].(string)
	left, ok2 := reply[1].(int64)
	now, ok3 := reply[2].(int64)
	agreed, ok4 := reply[3].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil, fmt.Errorf("the reply of Redis holds %T, %T, %T, %T for epoch, quarantine, time and the group's quarantine",
			reply[0], reply[1], reply[2], reply[3])
	}
	a.Epoch, a.Quarantine, a.RedisNow = epoch, span(left, time.Microsecond), now
	if agreed != 0 { // a later reply of the same discovery must not reset it
		a.Group, a.Operator = span(max(agreed, -agreed), time.Microsecond), agreed < 0
	}
	return reply[4:], nil
}

// outcomes maps the letters of epoch.lua. Capital letters have details.
var outcomes = [256]core.Outcome{
	'G': core.OutGranted, 'A': core.OutAdopted, 'H': core.OutHeld, 'f': core.OutFree, 'q': core.OutQuarantine,
	'r': core.OutRenewed, 't': core.OutReasserted, 'l': core.OutLost, 'L': core.OutLost, 'd': core.OutReleased,
	's': core.OutSuperseded, 'S': core.OutSuperseded, 'c': core.OutClosed, 'w': core.OutWrongType,
	'V': core.OutAlive, 'g': core.OutGone,
}

func decodeItems(rest []any, results []core.Result) error {
	codes, ok := rest[0].(string)
	if !ok || len(codes) != len(results) {
		return fmt.Errorf("the reply of Redis holds a %T of %d codes for %d items", rest[0], len(codes), len(results))
	}
	details := rest[1:]
	for i := range results {
		code := codes[i]
		if outcomes[code] == core.OutUnknown {
			return fmt.Errorf("the reply of Redis holds the unknown code 0x%02x", code)
		}
		results[i].Outcome = outcomes[code]
		if code >= 'a' {
			continue
		}
		if err := decodeDetail(details, &results[i]); err != nil {
			return err
		}
		details = details[3:]
	}
	return nil
}

// NewsPatience is the part of an interval in which an instance may read the sessions for all, before another one does.
const NewsPatience = 30

func decodeNews(rest []any) (*core.News, error) {
	if len(rest) < 4 {
		return nil, fmt.Errorf("the news of Redis holds %d elements of at least 4", len(rest))
	}
	mine, ok1 := rest[0].(string)
	sum, ok2 := rest[1].(string)
	age, ok3 := rest[2].(int64)
	notice, ok4 := rest[3].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil, fmt.Errorf("the news of Redis holds %T, %T, %T, %T for turn, sessions, age and notice", rest[0], rest[1], rest[2], rest[3])
	}
	n := &core.News{Notice: notice, Age: -1, Mine: mine != ""}
	if age >= 0 {
		n.Age = span(age, time.Microsecond)
	}
	n.Sum, _ = strconv.ParseUint(sum, 36, 64) // another program's text is no sum, and then all is read
	return n, nil
}

func decodeDetail(details []any, r *core.Result) error {
	if len(details) < 3 {
		return fmt.Errorf("the reply of Redis ends within the details of an item")
	}
	owner, ok1 := details[0].(string)
	pttl, ok2 := details[1].(int64)
	fence, ok3 := details[2].(int64)
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("the reply of Redis holds %T, %T, %T for owner, TTL and fence", details[0], details[1], details[2])
	}
	if pttl == 0 {
		pttl = 1 // less than a millisecond is left; 0 would mean unknown
	}
	r.Owner, r.Fence, r.PTTL = owner, fence, span(pttl, time.Millisecond)
	return nil
}
