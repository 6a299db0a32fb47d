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

// injector starts and ends a kind of fault. end, which may be nil, is called once for each start of a lasting fault.
type injector struct{ start, end func(*storm, *injection) }

// injectors holds the kinds that this engine supports. It is set in init, because the injectors refer to it.
var injectors map[fault.Kind]injector

func init() {
	injectors = map[fault.Kind]injector{}
	for _, some := range []func() map[fault.Kind]injector{
		processInjectors, networkInjectors, redisInjectors, serverInjectors, loadInjectors, clockInjectors,
	} {
		maps.Copy(injectors, some())
	}
}

// counted applies change with 1 at the fault's start and with -1 at its end.
func counted(change func(st *storm, s *injection, by int)) injector {
	return injector{func(st *storm, s *injection) { change(st, s, 1) }, func(st *storm, s *injection) { change(st, s, -1) }}
}

func processInjectors() map[fault.Kind]injector {
	crash := func(st *storm, s *injection) { st.fleet.nodes[s.node].die(-1, "asked") }
	spawn := func(st *storm, s *injection) { st.fleet.nodes[s.node].spawn() }
	thaw := func(st *storm, s *injection) {
		if n := st.fleet.nodes[s.node]; n.gen == s.gen {
			n.thaw()
		}
	}
	return map[fault.Kind]injector{
		fault.Crash:     {crash, spawn},
		fault.Terminate: {func(st *storm, s *injection) { st.fleet.nodes[s.node].stop(max(s.For, 1)) }, nil},
		fault.Leave:     {func(st *storm, s *injection) { st.fleet.nodes[s.node].stop(0) }, nil},
		fault.Join:      {spawn, nil},
		fault.CrashAll: {func(st *storm, _ *injection) {
			for _, n := range st.fleet.nodes {
				n.die(-1, "asked")
			}
		}, func(st *storm, _ *injection) {
			for _, n := range st.fleet.nodes {
				n.spawn()
			}
		}},
		fault.Freeze: {func(st *storm, s *injection) { st.fleet.nodes[s.node].frozen++ }, thaw},
		fault.CheckSend: {func(st *storm, s *injection) {
			n := st.fleet.nodes[s.node]
			n.check.waiting = append(n.check.waiting, s.number)
		}, func(st *storm, s *injection) {
			n := st.fleet.nodes[s.node]
			if n.gen != s.gen {
				return
			}
			if k := slices.Index(n.check.waiting, s.number); k >= 0 {
				n.check.waiting = slices.Delete(n.check.waiting, k, k+1) // no poll began
				return
			}
			n.check.session = -1
			n.thaw()
		}},
		// The machine sleeps: nothing runs, the monotonic clock stops, the wall clock runs.
		fault.Suspend: {func(st *storm, s *injection) {
			n := st.fleet.nodes[s.node]
			n.clock.Rebase(st.t)
			n.clock.Suspended = true
			n.frozen++
		}, func(st *storm, s *injection) {
			st.fleet.nodes[s.node].clock.Wake(st.t)
			thaw(st, s)
		}},
	}
}

func networkInjectors() map[fault.Kind]injector {
	// lasting changes a link until the fault ends. The end delivers the held messages.
	lasting := func(on, off func(*storm, *link, *injection)) injector {
		return injector{func(st *storm, s *injection) { on(st, &st.fleet.nodes[s.node].link, s) }, func(st *storm, s *injection) {
			n := st.fleet.nodes[s.node]
			off(st, &n.link, s)
			n.heal()
		}}
	}
	onLink := func(change func(l *link, s *injection, by int)) injector {
		return lasting(func(_ *storm, l *link, s *injection) { change(l, s, 1) }, func(_ *storm, l *link, s *injection) { change(l, s, -1) })
	}
	ms := func(n int64, by int) time.Duration { return time.Duration(n*int64(by)) * time.Millisecond }
	return map[fault.Kind]injector{
		fault.Cut: lasting(func(st *storm, l *link, s *injection) {
			l.cut++
			st.fleet.nodes[s.node].reset()
		}, func(_ *storm, l *link, _ *injection) { l.cut-- }),
		fault.BlackHole: lasting(func(_ *storm, l *link, _ *injection) {
			l.holdOut++
			l.holdIn++
		}, func(st *storm, l *link, s *injection) {
			l.holdOut--
			l.holdIn--
			if st.netRand.Int64N(2) == 0 && l.holdIn == 0 { // the client has closed the connection
				st.net.dropHeldIn(l)
				st.fleet.nodes[s.node].deafen()
			}
		}),
		fault.RequestsLost: onLink(func(l *link, _ *injection, by int) { l.holdOut += by }),
		fault.RepliesLost:  onLink(func(l *link, _ *injection, by int) { l.holdIn += by }),
		fault.Latency: onLink(func(l *link, s *injection, by int) {
			l.extra += ms(s.Ms, by)
			l.jitter += ms(s.Jitter, by)
		}),
		fault.Bandwidth: lasting(func(st *storm, l *link, s *injection) {
			s.narrow = narrow{kbps: max(1, s.KBps), until: min(st.t+int64(s.For), st.calm())}
			l.narrow = append(l.narrow, s.narrow)
		}, func(_ *storm, l *link, s *injection) {
			if i := slices.Index(l.narrow, s.narrow); i >= 0 {
				l.narrow = slices.Delete(l.narrow, i, i+1)
			}
		}),
		fault.Fragments: onLink(func(l *link, _ *injection, by int) { l.fragments += by }),
		fault.Duplicate: onLink(func(l *link, _ *injection, by int) { l.double += by }),
		fault.Reorder:   onLink(func(l *link, s *injection, by int) { l.reorder += ms(max(s.Ms, 50), by) }),
		fault.Flapping: {func(st *storm, s *injection) { st.flap(s) }, func(st *storm, s *injection) {
			if s.on {
				s.on = false
				st.fleet.nodes[s.node].link.cut--
			}
		}},
	}
}

func (st *storm) flap(s *injection) {
	n := st.fleet.nodes[s.node]
	if s.on = !s.on; s.on {
		n.link.cut++
		n.reset()
	} else {
		n.link.cut--
	}
	st.after(max(1, s.Ms)*int64(time.Millisecond), func() {
		if s.active && n.gen == s.gen {
			st.flap(s)
		}
	})
}

func redisInjectors() map[fault.Kind]injector {
	start := func(st *storm, s *injection) { s.server.start(false) }
	wipe := func(st *storm, s *injection) { s.server.start(true) }
	promote := func(st *storm, s *injection) {
		start(st, s)
		s.server.Moved(redis.EmptiedPromoted)
	}
	restart := func(st *storm, s *injection) {
		if !s.server.down {
			s.server.kill()
			s.server.start(false)
		}
	}
	hold := injector{func(_ *storm, s *injection) { s.server.hold++ }, func(st *storm, s *injection) {
		if s.server.hold--; s.server.hold == 0 {
			s.server.thaw()
		}
	}}
	return map[fault.Kind]injector{
		fault.RedisOutage:  {func(st *storm, s *injection) { s.server.kill() }, start},
		fault.RedisWipe:    {func(st *storm, s *injection) { s.server.kill() }, wipe},
		fault.RedisRestart: {restart, nil},
		fault.RedisFlush: {func(st *storm, _ *injection) {
			st.servers.master.FlushAll(st.cfg.Emptied)
			st.app.restoreSoon()
		}, nil},
		fault.RedisFreeze: hold,
		fault.RedisSlow:   hold,
		fault.RedisLoading: {func(st *storm, s *injection) {
			restart(st, s)
			s.server.loading++
		}, func(_ *storm, s *injection) { s.server.loading-- }},
		fault.RedisReadOnly:   counted(func(_ *storm, s *injection, by int) { s.server.Readonly += by }),
		fault.RedisMemory:     counted(func(_ *storm, s *injection, by int) { s.server.Full += by }),
		fault.RedisNoReplicas: counted(func(_ *storm, s *injection, by int) { s.server.Lonely += by }),
		fault.RedisMisconf:    counted(func(_ *storm, s *injection, by int) { s.server.Unsaved += by }),
		fault.RedisNoPerm:     counted(func(_ *storm, s *injection, by int) { *s.denial() += by }),
		fault.ScriptFlush:     {func(st *storm, _ *injection) { st.servers.master.Forget() }, nil},
		fault.ClientKill: {func(st *storm, _ *injection) {
			for _, n := range st.fleet.nodes {
				n.reset()
			}
		}, nil},
		// The promoted replica's data is Ms old, and its clock is off by up to ± Jitter.
		fault.RedisFailover: {func(st *storm, s *injection) {
			s.server.kill()
			st.servers.master.Wrote(redis.Change{Kind: redis.Flushed}) // the old server's keys are gone; start records the new server's
			st.servers.master.Restore(s.copy)
			st.servers.master.Step(st.t, spread(st.pick, s.Jitter*core.Millisecond))
		}, promote},
	}
}

func (s *injection) denial() *int {
	switch s.Deny {
	case fault.DenySet:
		return &s.server.NoSet
	case fault.DenyFences:
		return &s.server.NoFences
	}
	return &s.server.NoLeases
}

func serverInjectors() map[fault.Kind]injector {
	rejoin := func(st *storm, s *injection) { st.servers.sentinels.rejoin(s.zone()) }
	isolate := func(st *storm, s *injection) {
		var with *host
		if s.Aims() {
			with = &st.fleet.nodes[s.node].host
		}
		st.servers.sentinels.isolate(s.server.peer, s.zone(), with)
	}
	failOver := func(st *storm, _ *injection) { st.servers.sentinels.failOver(st.servers.sentinels.home) }
	return map[fault.Kind]injector{
		fault.MasterCut:     {isolate, rejoin},
		fault.Failover:      {failOver, nil},
		fault.FailoverTwice: {failOver, failOver},
		fault.ReplicaCut:    {func(_ *storm, s *injection) { s.server.peer.zone = s.zone() }, rejoin},
		fault.ReplicaFlip: {func(st *storm, s *injection) { s.server.peer.flip() },
			func(_ *storm, s *injection) { s.server.peer.flipBack() }},
		fault.ReplicaLag: counted(func(_ *storm, s *injection, by int) { s.server.peer.lag += int64(by) * s.Ms * core.Millisecond }),
		fault.ReplicaWipe: {func(st *storm, s *injection) { s.server.kill() },
			func(st *storm, s *injection) { s.server.start(true) }},
		fault.ReplicaDump: {func(_ *storm, s *injection) { s.dump = s.server.peer.save() },
			func(st *storm, s *injection) { s.server.peer.reload(s.dump) }},
		fault.ShardDown: {func(st *storm, s *injection) {
			s.shard = st.servers.sentinels.home
			for _, p := range st.servers.sentinels.of(s.shard) {
				p.s.kill()
			}
		}, func(st *storm, s *injection) {
			for _, p := range st.servers.sentinels.of(s.shard) {
				p.s.start(false)
			}
		}},
		fault.SlotMoved: {func(st *storm, s *injection) { st.servers.sentinels.cluster.moveSoon(func() bool { return s.active }) }, nil},
	}
}

func loadInjectors() map[fault.Kind]injector {
	return map[fault.Kind]injector{
		fault.KeyDelete: {func(st *storm, s *injection) {
			if m := st.servers.master; m.Owners()[s.session] == "" || m.peer != nil && (m.down || m.follows()) {
				return
			}
			// G1's exception: the judge bounds the overlap by a renewal interval and its timeout. A frozen owner can exceed that here.
			se := st.oracle.of(s.session)
			se.excused = st.t + int64(st.cfg.TTL)
			st.servers.master.DeleteLease(s.session)
			st.after(int64(st.cfg.TTL), func() { st.oracle.suspect(s.session) })
		}, nil},
		fault.BeatStale: {func(st *storm, s *injection) {
			stale := (st.servers.master.Clock.WallAt(st.t) - 2*int64(st.cfg.TTL)) / core.Millisecond
			st.servers.master.ForceBeat(st.fleet.nodes[s.node].instance, strconv.FormatInt(stale, 10))
		}, func(st *storm, s *injection) { st.servers.master.ForceBeat(st.fleet.nodes[s.node].instance, "") }},
		fault.SessionAdd: {func(st *storm, s *injection) {
			for range max(1, s.Ms) {
				st.app.add()
			}
			st.app.put()
		}, nil},
		fault.SessionRemove: {func(st *storm, s *injection) {
			st.app.sessions[s.session].gone = true
			st.app.put()
			st.emit(history.Event{Kind: history.SessionRemoved, Session: st.app.sessions[s.session].id})
		}, nil},
		fault.SessionPause: counted(func(st *storm, s *injection, by int) { st.app.pause(s.session, by) }),
		fault.PollSlow: {func(st *storm, s *injection) {
			st.app.sessions[s.session].slow = time.Duration(s.Ms) * time.Millisecond
		}, func(st *storm, s *injection) { st.app.sessions[s.session].slow = 0 }},
		fault.PollHang: counted(func(st *storm, s *injection, by int) { st.app.sessions[s.session].hang += by }),
	}
}

func clockInjectors() map[fault.Kind]injector {
	// The process does not notice the change, but its next tick and its trust windows end at other true times.
	changes := func(change func(c *loop.Clock, s *injection)) func(*storm, *injection) {
		return func(st *storm, s *injection) {
			n := st.fleet.nodes[s.node]
			n.clock.Rebase(st.t)
			change(&n.clock, s)
			if !n.alive {
				return
			}
			n.tickAt = 0
			n.setTick()
			for i := range n.shell.terms {
				if t := &n.shell.terms[i]; t.gen != 0 {
					st.oracle.suspect(t.session)
				}
			}
		}
	}
	// signed is negative if Jitter is not 0.
	signed := func(s *injection, amount int64) int64 {
		if s.Jitter != 0 {
			return -amount
		}
		return amount
	}
	return map[fault.Kind]injector{
		fault.ClockStep: {changes(func(c *loop.Clock, s *injection) { c.Wall += signed(s, s.Ms*core.Millisecond) }), nil},
		// The rate error of both clocks, in parts per million, until the fault heals.
		fault.ClockDrift: {changes(func(c *loop.Clock, s *injection) { s.was, c.PPM = c.PPM, signed(s, min(s.Ms, maxDrift)) }),
			changes(func(c *loop.Clock, s *injection) { c.PPM = s.was })},
	}
}
