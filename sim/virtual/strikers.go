package virtual

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// striker starts and ends a kind of fault. end, which may be nil, is called once for each start of a lasting fault.
type striker struct{ start, end func(*world, *strike) }

// strikers holds the kinds that this engine supports. It is set in init, because the strikers refer to it.
var strikers map[fault.Kind]striker

func init() {
	strikers = map[fault.Kind]striker{}
	for _, some := range []func() map[fault.Kind]striker{
		processStrikers, networkStrikers, redisStrikers, serverStrikers, loadStrikers, clockStrikers,
	} {
		maps.Copy(strikers, some())
	}
}

// counted applies change with 1 at the fault's start and with -1 at its end.
func counted(change func(w *world, s *strike, by int)) striker {
	return striker{func(w *world, s *strike) { change(w, s, 1) }, func(w *world, s *strike) { change(w, s, -1) }}
}

func processStrikers() map[fault.Kind]striker {
	crash := func(w *world, s *strike) { w.die(w.nodes[s.node], -1, "asked") }
	spawn := func(w *world, s *strike) { w.spawn(w.nodes[s.node]) }
	thaw := func(w *world, s *strike) {
		if n := w.nodes[s.node]; n.gen == s.gen {
			w.thaw(n)
		}
	}
	return map[fault.Kind]striker{
		fault.Crash:     {crash, spawn},
		fault.Terminate: {func(w *world, s *strike) { w.stop(w.nodes[s.node], max(s.For, 1)) }, nil},
		fault.Leave:     {func(w *world, s *strike) { w.stop(w.nodes[s.node], 0) }, nil},
		fault.Join:      {spawn, nil},
		fault.CrashAll: {func(w *world, _ *strike) {
			for _, n := range w.nodes {
				w.die(n, -1, "asked")
			}
		}, func(w *world, _ *strike) {
			for _, n := range w.nodes {
				w.spawn(n)
			}
		}},
		fault.Freeze: {func(w *world, s *strike) { w.nodes[s.node].frozen++ }, thaw},
		fault.CheckSend: {func(w *world, s *strike) {
			n := w.nodes[s.node]
			n.pauses = append(n.pauses, s.number)
		}, func(w *world, s *strike) {
			n := w.nodes[s.node]
			if n.gen != s.gen {
				return
			}
			if k := slices.Index(n.pauses, s.number); k >= 0 {
				n.pauses = slices.Delete(n.pauses, k, k+1) // no poll began
				return
			}
			n.witness = -1
			w.thaw(n)
		}},
		// The machine sleeps: nothing runs, the monotonic clock stops, the wall clock runs.
		fault.Suspend: {func(w *world, s *strike) {
			n := w.nodes[s.node]
			n.clock.Rebase(w.t)
			n.clock.Suspended = true
			n.frozen++
		}, func(w *world, s *strike) {
			w.nodes[s.node].clock.Wake(w.t)
			thaw(w, s)
		}},
	}
}

func networkStrikers() map[fault.Kind]striker {
	// lasting changes a link until the fault ends. The end delivers the held messages.
	lasting := func(on, off func(*world, *link, *strike)) striker {
		return striker{func(w *world, s *strike) { on(w, &w.nodes[s.node].link, s) }, func(w *world, s *strike) {
			n := w.nodes[s.node]
			off(w, &n.link, s)
			w.heal(n)
		}}
	}
	onLink := func(change func(l *link, s *strike, by int)) striker {
		return lasting(func(_ *world, l *link, s *strike) { change(l, s, 1) }, func(_ *world, l *link, s *strike) { change(l, s, -1) })
	}
	ms := func(n int64, by int) time.Duration { return time.Duration(n*int64(by)) * time.Millisecond }
	return map[fault.Kind]striker{
		fault.Cut: lasting(func(w *world, l *link, s *strike) {
			l.cut++
			w.reset(w.nodes[s.node])
		}, func(_ *world, l *link, _ *strike) { l.cut-- }),
		fault.BlackHole: lasting(func(_ *world, l *link, _ *strike) {
			l.holdOut++
			l.holdIn++
		}, func(w *world, l *link, s *strike) {
			l.holdOut--
			l.holdIn--
			if w.net.Int64N(2) == 0 && l.holdIn == 0 { // the client has closed the connection
				w.dropHeldIn(l)
				w.deafen(w.nodes[s.node])
			}
		}),
		fault.RequestsLost: onLink(func(l *link, _ *strike, by int) { l.holdOut += by }),
		fault.RepliesLost:  onLink(func(l *link, _ *strike, by int) { l.holdIn += by }),
		fault.Latency: onLink(func(l *link, s *strike, by int) {
			l.extra += ms(s.Ms, by)
			l.jitter += ms(s.Jitter, by)
		}),
		fault.Bandwidth: lasting(func(w *world, l *link, s *strike) {
			s.narrow = narrow{kbps: max(1, s.KBps), until: min(w.t+int64(s.For), w.calm())}
			l.narrow = append(l.narrow, s.narrow)
		}, func(_ *world, l *link, s *strike) {
			if i := slices.Index(l.narrow, s.narrow); i >= 0 {
				l.narrow = slices.Delete(l.narrow, i, i+1)
			}
		}),
		fault.Fragments: onLink(func(l *link, _ *strike, by int) { l.fragments += by }),
		fault.Duplicate: onLink(func(l *link, _ *strike, by int) { l.double += by }),
		fault.Reorder:   onLink(func(l *link, s *strike, by int) { l.reorder += ms(max(s.Ms, 50), by) }),
		fault.Flapping: {(*world).flap, func(w *world, s *strike) {
			if s.on {
				s.on = false
				w.nodes[s.node].link.cut--
			}
		}},
	}
}

func (w *world) flap(s *strike) {
	n := w.nodes[s.node]
	if s.on = !s.on; s.on {
		n.link.cut++
		w.reset(n)
	} else {
		n.link.cut--
	}
	w.q.Push(loop.Event{At: w.t + max(1, s.Ms)*int64(time.Millisecond), Kind: evFlap, Arg: s.number})
}

func redisStrikers() map[fault.Kind]striker {
	start := func(w *world, s *strike) { w.startServer(s.server, false) }
	wipe := func(w *world, s *strike) { w.startServer(s.server, true) }
	promote := func(w *world, s *strike) {
		start(w, s)
		s.server.Moved(redis.EmptiedPromoted)
	}
	restart := func(w *world, s *strike) {
		if !s.server.down {
			w.killServer(s.server)
			w.startServer(s.server, false)
		}
	}
	hold := striker{func(_ *world, s *strike) { s.server.hold++ }, func(w *world, s *strike) {
		if s.server.hold--; s.server.hold == 0 {
			w.thawServer(s.server)
		}
	}}
	return map[fault.Kind]striker{
		fault.RedisOutage:  {func(w *world, s *strike) { w.killServer(s.server) }, start},
		fault.RedisWipe:    {func(w *world, s *strike) { w.killServer(s.server) }, wipe},
		fault.RedisRestart: {restart, nil},
		fault.RedisFlush: {func(w *world, _ *strike) {
			w.server.FlushAll(w.cfg.Emptied)
			w.application()
		}, nil},
		fault.RedisFreeze: hold,
		fault.RedisSlow:   hold,
		fault.RedisLoading: {func(w *world, s *strike) {
			restart(w, s)
			s.server.loading++
		}, func(_ *world, s *strike) { s.server.loading-- }},
		fault.RedisReadOnly:   counted(func(_ *world, s *strike, by int) { s.server.Readonly += by }),
		fault.RedisMemory:     counted(func(_ *world, s *strike, by int) { s.server.Full += by }),
		fault.RedisNoReplicas: counted(func(_ *world, s *strike, by int) { s.server.Lonely += by }),
		fault.RedisMisconf:    counted(func(_ *world, s *strike, by int) { s.server.Unsaved += by }),
		fault.RedisNoPerm:     counted(func(_ *world, s *strike, by int) { *s.denial() += by }),
		fault.ScriptFlush:     {func(w *world, _ *strike) { w.server.Forget() }, nil},
		fault.ClientKill: {func(w *world, _ *strike) {
			for _, n := range w.nodes {
				w.reset(n)
			}
		}, nil},
		// The promoted replica's data is Ms old, and its clock is off by up to ± Jitter.
		fault.RedisFailover: {func(w *world, s *strike) {
			w.killServer(s.server)
			w.server.Wrote(redis.Change{Kind: redis.Flushed}) // the old server's keys are gone; startServer records the new server's
			w.server.Restore(s.copy)
			w.server.Step(w.t, spread(w.pick, s.Jitter*core.Millisecond))
		}, promote},
	}
}

func (s *strike) denial() *int {
	switch s.Deny {
	case fault.DenySet:
		return &s.server.NoSet
	case fault.DenyFences:
		return &s.server.NoFences
	}
	return &s.server.NoLeases
}

func serverStrikers() map[fault.Kind]striker {
	failOver := func(w *world, _ *strike) { w.failOver(w.sentinels.home) }
	return map[fault.Kind]striker{
		fault.MasterCut:     {(*world).isolate, (*world).rejoin},
		fault.Failover:      {failOver, nil},
		fault.FailoverTwice: {failOver, failOver},
		fault.ReplicaCut:    {func(_ *world, s *strike) { s.server.peer.zone = s.zone() }, (*world).rejoin},
		fault.ReplicaFlip: {func(w *world, s *strike) { w.flip(s.server.peer) },
			func(_ *world, s *strike) { s.server.peer.flipBack() }},
		fault.ReplicaLag: counted(func(_ *world, s *strike, by int) { s.server.peer.lag += int64(by) * s.Ms * core.Millisecond }),
		fault.ReplicaWipe: {func(w *world, s *strike) { w.killServer(s.server) },
			func(w *world, s *strike) { w.startServer(s.server, true) }},
		fault.ReplicaDump: {func(_ *world, s *strike) { s.dump = s.server.peer.save() },
			func(w *world, s *strike) { w.reload(s.server, s.dump) }},
		fault.ShardDown: {func(w *world, s *strike) {
			s.shard = w.sentinels.home
			for _, p := range w.sentinels.of(s.shard) {
				w.killServer(p.s)
			}
		}, func(w *world, s *strike) {
			for _, p := range w.sentinels.of(s.shard) {
				w.startServer(p.s, false)
			}
		}},
		fault.SlotMoved: {(*world).moveSoon, nil},
	}
}

func loadStrikers() map[fault.Kind]striker {
	return map[fault.Kind]striker{
		fault.KeyDelete: {func(w *world, s *strike) {
			if w.server.Owners()[s.session] == "" || w.server.peer != nil && (w.server.down || w.server.follows()) {
				return
			}
			// G1's exception: the judge bounds the overlap by a renewal interval and its timeout. A frozen owner can exceed that here.
			se := &w.sess[s.session]
			se.excused = w.t + int64(w.cfg.TTL)
			w.server.DeleteLease(s.session)
			w.q.Push(loop.Event{At: se.excused, Kind: evOracle, Arg: s.session})
		}, nil},
		fault.BeatStale: {func(w *world, s *strike) {
			stale := (w.server.Clock.WallAt(w.t) - 2*int64(w.cfg.TTL)) / core.Millisecond
			w.server.ForceBeat(w.nodes[s.node].instance, strconv.FormatInt(stale, 10))
		}, func(w *world, s *strike) { w.server.ForceBeat(w.nodes[s.node].instance, "") }},
		fault.SessionAdd: {func(w *world, s *strike) {
			for range max(1, s.Ms) {
				w.addSession()
			}
			w.putSessions()
		}, nil},
		fault.SessionRemove: {func(w *world, s *strike) {
			w.sess[s.session].gone = true
			w.putSessions()
			w.emit(history.Event{Kind: history.SessionRemoved, Session: w.sess[s.session].id})
		}, nil},
		fault.SessionPause: counted(func(w *world, s *strike, by int) { w.pause(s.session, by) }),
		fault.PollSlow: {func(w *world, s *strike) {
			w.sess[s.session].slow = time.Duration(s.Ms) * time.Millisecond
		}, func(w *world, s *strike) { w.sess[s.session].slow = 0 }},
		fault.PollHang: counted(func(w *world, s *strike, by int) { w.sess[s.session].hang += by }),
	}
}

func clockStrikers() map[fault.Kind]striker {
	// The process does not notice the change, but its next tick and its trust windows end at other true times.
	changes := func(change func(c *loop.Clock, s *strike)) func(*world, *strike) {
		return func(w *world, s *strike) {
			n := w.nodes[s.node]
			n.clock.Rebase(w.t)
			change(&n.clock, s)
			if !n.alive {
				return
			}
			n.tickAt = 0
			w.setTick(n)
			for i := range n.terms {
				if t := &n.terms[i]; t.gen != 0 {
					w.suspect(t.session)
				}
			}
		}
	}
	// signed is negative if Jitter is not 0.
	signed := func(s *strike, amount int64) int64 {
		if s.Jitter != 0 {
			return -amount
		}
		return amount
	}
	return map[fault.Kind]striker{
		fault.ClockStep: {changes(func(c *loop.Clock, s *strike) { c.Wall += signed(s, s.Ms*core.Millisecond) }), nil},
		// The rate error of both clocks, in parts per million, until the fault heals.
		fault.ClockDrift: {changes(func(c *loop.Clock, s *strike) { s.was, c.PPM = c.PPM, signed(s, min(s.Ms, maxDrift)) }),
			changes(func(c *loop.Clock, s *strike) { c.PPM = s.was })},
	}
}
