package virtual

type eventKind uint8

const (
	evTick         eventKind = iota // node: its core asked for this time
	evSend                          // node: msg leaves the process
	evArrive                        // msg reaches Redis
	evExec                          // Redis executes msg
	evReply                         // msg's answer reaches node
	evTimeout                       // node: msg's deadline passed and nothing came
	evNotice                        // note reaches node
	evSubUp                         // node tries to subscribe
	evWant                          // node: session arg is wanted
	evHeld                          // node: term arg was held for long enough
	evPoll                          // node: term arg is due
	evPollArrive                    // poll arg reaches the target
	evPollServed                    // the target answers poll arg
	evPollEnd                       // node: the answer of poll arg arrives
	evPollTimeout                   // node: poll arg's own time-out
	evLeaseExpiry                   // Redis: lease arg may have expired
	evBeatExpiry                    // Redis: heartbeat arg may have expired
	evSpawn                         // node: start a process in this slot
	evTerm                          // node: asked to stop
	evPollSend                      // node: poll arg leaves
	evKill                          // node: a clean stop took too long
	evFaultStart                    // plan fault arg strikes
	evFaultEnd                      // plan fault arg heals
	evFlap                          // fault arg toggles
	evSnapshot                      // a replica's copy for fault arg is taken
	evSessionsBack                  // the application puts its sessions back
	evOracle                        // session arg: an excused overlap must be over
	evPhase                         // arg: the phase that begins
	evCall                          // call arg is due
	evProcess                       // node: call arg is due
	evCount                         // a bucket is over: what the nodes sent in it is told
)

// event holds no pointer, so that two fit a cache line and the garbage collector ignores the queue.
type event struct {
	at   int64  // true time
	seq  uint64 // order among equal times
	kind eventKind
	node int32
	arg  int32  // in the events of messages and notices, their number
	gen  uint32 // of node or arg; an event of an old generation is dropped
}

func (e *event) named() bool { return e.kind >= evSend && e.kind <= evTimeout }

// queue orders events by time. A 4-ary heap holds those of the present slot: half a binary heap's depth, and children share a cache line or
// two. Later ones wait unordered in the ring of slots, because most events of a large fleet are polls due in seconds.
type queue struct {
	heap []event
	ring [slots][]event
	slot int64 // the present one: time >> slotBits
	seq  uint64
}

// The ring reaches 34 s ahead. Later events wait in its farthest slot and are deferred again from there.
const (
	slotBits = 26 // of ns: 67 ms
	slots    = 512
	slotMax  = 1 << 11 // events that a slot keeps room for
)

func before(a, b *event) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}

// push adds e. Events of one instant leave in the order of their pushes.
func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.place(&e)
}

func (q *queue) place(e *event) {
	if e.at>>slotBits > q.slot {
		q.putOff(e)
	} else {
		q.sift(e)
	}
}

func (q *queue) putOff(e *event) {
	i := min(e.at>>slotBits, q.slot+slots-1) % slots
	if q.ring[i] == nil {
		q.ring[i] = make([]event, 0, 8) // what ten instances with a hundred sessions fill
	}
	q.ring[i] = append(q.ring[i], *e)
}

func (q *queue) sift(e *event) {
	q.heap = append(q.heap, *e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !before(e, &h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = *e
}

// refill advances slots until an event is due. The queue must not be empty.
func (q *queue) refill() {
	for len(q.heap) == 0 {
		q.slot++
		i := q.slot % slots
		due := q.ring[i]
		if q.ring[i] = due[:0]; cap(due) > slotMax {
			q.ring[i] = nil // all instances start within one slot: what that took is not kept
		}
		for k := range due {
			q.place(&due[k])
		}
	}
}

// pop removes and returns the earliest event. The heap must not be empty.
func (q *queue) pop() event {
	h := q.heap
	top := h[0]
	last := h[len(h)-1]
	h = h[:len(h)-1]
	q.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if before(&h[c], &h[least]) {
				least = c
			}
		}
		if !before(&h[least], &last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return top
}
