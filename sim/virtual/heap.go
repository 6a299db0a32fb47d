package virtual

type eventKind uint8

const (
	evTick         eventKind = iota // node: the core requested this time
	evSend                          // node: msg leaves the process
	evArrive                        // msg reaches Redis
	evExec                          // Redis executes msg
	evReply                         // msg's answer reaches node
	evTimeout                       // node: msg's deadline passed without an answer
	evNotice                        // note reaches node
	evSubUp                         // node tries to subscribe
	evWant                          // node: wants session arg
	evHeld                          // node: Config.Hold of term arg is over
	evPoll                          // node: the next poll of term arg is due
	evPollArrive                    // poll arg reaches the target
	evPollServed                    // the target answers poll arg
	evPollEnd                       // node: the answer of poll arg arrives
	evPollTimeout                   // node: poll arg times out
	evLeaseExpiry                   // Redis: lease arg may have expired
	evBeatExpiry                    // Redis: heartbeat arg may have expired
	evSpawn                         // node: start a process in this slot
	evTerm                          // node: stop cleanly
	evPollSend                      // node: poll arg is sent
	evKill                          // node: a clean stop timed out
	evFaultStart                    // plan fault arg strikes
	evFaultEnd                      // plan fault arg heals
	evFlap                          // fault arg toggles
	evSnapshot                      // copy the data of a replica for fault arg
	evSessionsBack                  // the application restores its sessions
	evOracle                        // session arg: the excuse of an overlap ends
	evPhase                         // phase arg begins
	evCall                          // call arg is due
	evProcess                       // node: call arg is due
	evCount                         // a bucket ends: record the commands sent in it
)

// event holds no pointer, so that two fit a cache line and the garbage collector ignores the queue.
type event struct {
	at   int64  // true time
	seq  uint64 // order among equal times
	kind eventKind
	node int32
	arg  int32  // number of the message or notice, in their events
	gen  uint32 // of node or arg; an event of an old generation is dropped
}

func (e *event) named() bool { return e.kind >= evSend && e.kind <= evTimeout }

// queue orders events by time. A 4-ary heap holds those of the current slot: it has half a binary heap's depth, and children share a
// cache line or two. Later ones wait unordered in the ring of slots, because most events of a large fleet are polls due in seconds.
type queue struct {
	heap []event
	ring [slots][]event
	slot int64 // current: time >> slotBits
	seq  uint64
}

// The ring reaches 34 s ahead. Later events wait in its farthest slot and are placed again from there.
const (
	slotBits = 26 // of ns: 67 ms
	slots    = 512
	slotMax  = 1 << 11 // capacity that a slot keeps, in events
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
		q.ring[i] = make([]event, 0, 8) // enough for ten instances with a hundred sessions
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
			q.ring[i] = nil // all instances start within one slot, so free the memory of that peak
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
