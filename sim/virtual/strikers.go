package virtual

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// striker is what a kind of fault does. end is called once for every start whose fault lasts.
type striker struct {
	start func(*world, int32, *strike)
	end   func(*world, int32, *strike)
}

// strikers has one entry for each kind this engine can strike. It is set in init, because the strikers refer to it.
var strikers map[fault.Kind]striker

func init() {
	strikers = map[fault.Kind]striker{}
	maps.Copy(strikers, processStrikers())
	maps.Copy(strikers, networkStrikers())
	maps.Copy(strikers, redisStrikers())
	maps.Copy(strikers, serverStrikers())
	maps.Copy(strikers, loadStrikers())
	maps.Copy(strikers, clockStrikers())
}

func processStrikers() map[fault.Kind]striker {
	thaw := func(w *world, _ int32, s *strike) {
		if n := w.nodes[s.node]; n.gen == s.gen {
			w.thaw(n)
		}
	}
	return map[fault.Kind]striker{
		fault.Crash: {func(w *world, _ int32, s *strike) {
			w.die(w.nodes[s.node], -1, "asked")
		}, func(w *world, _ int32, s *strike) { w.spawn(w.nodes[s.node]) }},
		fault.Terminate: {func(w *world, _ int32, s *strike) {
			w.stop(w.nodes[s.node], max(s.For, 1))
		}, nil},
		fault.Leave: {func(w *world, _ int32, s *strike) { w.stop(w.nodes[s.node], 0) }, nil},
		fault.Join:  {func(w *world, _ int32, s *strike) { w.spawn(w.nodes[s.node]) }, nil},
		fault.CrashAll: {func(w *world, _ int32, s *strike) {
			for _, n := range w.nodes {
				w.die(n, -1, "asked")
			}
		}, func(w *world, _ int32, s *strike) {
			for _, n := range w.nodes {
				w.spawn(n)
			}
		}},
		fault.Freeze: {func(w *world, _ int32, s *strike) { w.freeze(w.nodes[s.node]) }, thaw},
		fault.CheckSend: {func(w *world, i int32, s *strike) {
			n := w.nodes[s.node]
			n.pauses = append(n.pauses, i)
		}, func(w *world, i int32, s *strike) {
			n := w.nodes[s.node]
			if n.gen != s.gen {
				return
			}
			if k := slices.Index(n.pauses, i); k >= 0 {
				n.pauses = slices.Delete(n.pauses, k, k+1) // it never came to a poll
				return
			}
			n.witness = -1
			w.thaw(n)
		}},
	}
}

func networkStrikers() map[fault.Kind]striker {
	// on and off change a link; off heals what it held back.
	lasting := func(on, off func(*world, *node, *strike)) striker {
		return striker{func(w *world, _ int32, s *strike) {
			on(w, w.nodes[s.node], s)
		}, func(w *world, _ int32, s *strike) {
			n := w.nodes[s.node]
			off(w, n, s)
			w.heal(n)
		}}
	}
	cut := func(w *world, n *node, _ *strike) { n.link.cut++; w.reset(n) }
	mended := func(_ *world, n *node, _ *strike) { n.link.cut-- }
	limit := func(w *world, n *node, s *strike) {
		s.narrow = narrow{kbps: max(1, s.KBps), until: min(w.t+int64(s.For), w.calm())}
		n.link.narrow = append(n.link.narrow, s.narrow)
	}
	return map[fault.Kind]striker{
		fault.Cut: lasting(cut, mended),
		fault.BlackHole: lasting(func(_ *world, n *node, _ *strike) { n.link.holdOut++; n.link.holdIn++ },
			func(w *world, n *node, _ *strike) {
				n.link.holdOut--
				n.link.holdIn--
				if w.net.Int64N(2) == 0 && n.link.holdIn == 0 { // the client had given the connection up
					w.dropHeldIn(&n.link)
					w.deafen(n)
				}
			}),
		fault.RequestsLost: lasting(func(_ *world, n *node, _ *strike) { n.link.holdOut++ },
			func(_ *world, n *node, _ *strike) { n.link.holdOut-- }),
		fault.RepliesLost: lasting(func(_ *world, n *node, _ *strike) { n.link.holdIn++ },
			func(_ *world, n *node, _ *strike) { n.link.holdIn-- }),
		fault.Latency: lasting(func(_ *world, n *node, s *strike) {
			n.link.extra += time.Duration(s.Ms) * time.Millisecond
			n.link.jitter += time.Duration(s.Jitter) * time.Millisecond
		}, func(_ *world, n *node, s *strike) {
			n.link.extra -= time.Duration(s.Ms) * time.Millisecond
			n.link.jitter -= time.Duration(s.Jitter) * time.Millisecond
		}),
		fault.Bandwidth: lasting(limit, func(_ *world, n *node, s *strike) {
			if i := slices.Index(n.link.narrow, s.narrow); i >= 0 {
				n.link.narrow = slices.Delete(n.link.narrow, i, i+1)
			}
		}),
		fault.Fragments: lasting(func(_ *world, n *node, _ *strike) { n.link.fragments++ },
			func(_ *world, n *node, _ *strike) { n.link.fragments-- }),
		fault.Duplicate: lasting(func(_ *world, n *node, _ *strike) { n.link.double++ },
			func(_ *world, n *node, _ *strike) { n.link.double-- }),
		fault.Reorder: lasting(func(_ *world, n *node, s *strike) {
			n.link.reorder += time.Duration(max(s.Ms, 50)) * time.Millisecond
		}, func(_ *world, n *node, s *strike) {
			n.link.reorder -= time.Duration(max(s.Ms, 50)) * time.Millisecond
		}),
		fault.Flapping: {func(w *world, i int32, s *strike) { w.flap(i, s) }, func(w *world, _ int32, s *strike) {
			if s.on {
				s.on = false
				w.nodes[s.node].link.cut--
			}
		}},
	}
}

// flap cuts a link or mends it, and plans the next time.
func (w *world) flap(i int32, s *strike) {
	n := w.nodes[s.node]
	if s.on = !s.on; s.on {
		n.link.cut++
		w.reset(n)
	} else {
		n.link.cut--
	}
	w.q.push(event{at: w.t + max(1, s.Ms)*int64(time.Millisecond), kind: evFlap, arg: i})
}

func redisStrikers() map[fault.Kind]striker {
	kill := func(w *world, _ int32, s *strike) { w.killServer(s.server) }
	hold := func(w *world, _ int32, s *strike) { s.server.hold++ }
	thaw := func(w *world, _ int32, s *strike) {
		if s.server.hold--; s.server.hold == 0 {
			w.thawServer(s.server)
		}
	}
	resetAll := func(w *world, _ int32, _ *strike) {
		for _, n := range w.nodes {
			w.reset(n)
		}
	}
	refuses := func(count func(*refusals) *int) striker {
		return striker{func(_ *world, _ int32, s *strike) { *count(&s.server.refusals)++ },
			func(_ *world, _ int32, s *strike) { *count(&s.server.refusals)-- }}
	}
	restart := func(w *world, s *strike) {
		if !s.server.down {
			w.killServer(s.server)
			w.startServer(s.server, false)
		}
	}
	return map[fault.Kind]striker{
		fault.RedisOutage: {kill, func(w *world, _ int32, s *strike) { w.startServer(s.server, false) }},
		fault.RedisWipe: {func(w *world, i int32, s *strike) {
			w.killServer(s.server)
			if s.For == 0 {
				w.startServer(s.server, true)
			}
		}, func(w *world, _ int32, s *strike) { w.startServer(s.server, true) }},
		fault.RedisRestart: {func(w *world, _ int32, s *strike) { restart(w, s) }, nil},
		fault.RedisFlush: {func(w *world, _ int32, _ *strike) {
			w.server.flush()
			w.application()
		}, nil},
		fault.RedisFreeze: {hold, thaw},
		fault.RedisSlow:   {hold, thaw},
		fault.RedisLoading: {func(w *world, _ int32, s *strike) {
			restart(w, s)
			s.server.loading++
		}, func(_ *world, _ int32, s *strike) { s.server.loading-- }},
		fault.RedisReadOnly:   refuses(func(r *refusals) *int { return &r.readonly }),
		fault.RedisMemory:     refuses(func(r *refusals) *int { return &r.full }),
		fault.RedisNoReplicas: refuses(func(r *refusals) *int { return &r.lonely }),
		fault.RedisMisconf:    refuses(func(r *refusals) *int { return &r.unsaved }),
		fault.RedisNoPerm: {func(_ *world, _ int32, s *strike) { s.server.deny(s.Deny, 1) },
			func(_ *world, _ int32, s *strike) { s.server.deny(s.Deny, -1) }},
		fault.ScriptFlush: {func(w *world, _ int32, _ *strike) { w.server.forget() }, nil},
		fault.ClientKill:  {resetAll, nil},
		// The replica that takes over has the data of Ms before and a clock of its own, off by up to ± Jitter.
		fault.RedisFailover: {func(w *world, _ int32, s *strike) {
			w.killServer(s.server)
			w.server.tap.flushed() // what the old server held went with it; startServer says what the new one holds
			w.server.restore(s.copy)
			w.stepServer(spread(w.pick, s.Jitter*core.Millisecond))
			if s.For == 0 {
				w.startServer(s.server, false)
			}
		}, func(w *world, _ int32, s *strike) { w.startServer(s.server, false) }},
	}
}

// serverStrikers are of a replicated Redis.
func serverStrikers() map[fault.Kind]striker {
	failOver := func(w *world, _ int32, _ *strike) { w.failOver(w.sentinels.home) }
	return map[fault.Kind]striker{
		fault.MasterCut: {func(w *world, i int32, s *strike) { w.isolate(s.server, i+1) },
			func(w *world, i int32, _ *strike) { w.rejoin(i + 1) }},
		fault.Failover:      {failOver, nil},
		fault.FailoverTwice: {failOver, failOver},
		fault.ReplicaCut: {func(_ *world, i int32, s *strike) { s.server.peer.zone = i + 1 },
			func(w *world, i int32, _ *strike) { w.rejoin(i + 1) }},
		fault.ReplicaFlip: {func(w *world, _ int32, s *strike) { w.flip(s.server) },
			func(w *world, _ int32, s *strike) { w.flipBack(s.server) }},
		fault.ReplicaLag: {func(_ *world, _ int32, s *strike) { s.server.peer.lag += s.Ms * core.Millisecond },
			func(_ *world, _ int32, s *strike) { s.server.peer.lag -= s.Ms * core.Millisecond }},
		fault.ReplicaWipe: {func(w *world, _ int32, s *strike) { w.killServer(s.server) },
			func(w *world, _ int32, s *strike) { w.startServer(s.server, true) }},
		fault.ReplicaDump: {func(w *world, _ int32, s *strike) { s.dump = s.server.peer.save() },
			func(w *world, _ int32, s *strike) { w.reload(s.server, s.dump) }},
		fault.ShardDown: {func(w *world, _ int32, s *strike) {
			s.shard = w.sentinels.home
			for _, p := range w.sentinels.of(s.shard) {
				w.killServer(p.s)
			}
		}, func(w *world, _ int32, s *strike) {
			for _, p := range w.sentinels.of(s.shard) {
				w.startServer(p.s, false)
			}
		}},
		fault.SlotMoved: {func(w *world, _ int32, s *strike) { w.moveSoon(s) }, nil},
	}
}

func loadStrikers() map[fault.Kind]striker {
	return map[fault.Kind]striker{
		fault.KeyDelete: {func(w *world, _ int32, s *strike) {
			k := &w.server.leases[s.session]
			if k.owner == "" || w.server.peer != nil && (w.server.down || w.server.follows()) {
				return
			}
			// G1's exception. The judge bounds the overlap by a renewal and its time-out; here only a frozen owner can make
			// it longer, and its window ends.
			se := &w.sess[s.session]
			se.excused = w.t + int64(w.cfg.TTL)
			w.server.deleteLease(s.session)
			w.q.push(event{at: se.excused, kind: evOracle, arg: s.session})
		}, nil},
		fault.BeatStale: {func(w *world, _ int32, s *strike) {
			i := w.server.beatKey(w.nodes[s.node].instance)
			if w.server.staleBeats == nil {
				w.server.staleBeats = map[int32]string{}
			}
			w.server.staleBeats[i] = strconv.FormatInt((w.server.clock.wallAt(w.t)-2*int64(w.cfg.TTL))/core.Millisecond, 10)
			if b := &w.server.beats[i]; b.set {
				b.text = w.server.staleBeats[i]
			}
		}, func(w *world, _ int32, s *strike) {
			delete(w.server.staleBeats, w.server.beatKey(w.nodes[s.node].instance))
		}},
		fault.SessionAdd: {func(w *world, _ int32, s *strike) {
			for range max(1, s.Ms) {
				w.addSession()
			}
			w.putSessions()
		}, nil},
		fault.SessionRemove: {func(w *world, _ int32, s *strike) {
			w.sess[s.session].gone = true
			w.putSessions()
			w.emit(history.Event{Kind: history.SessionRemoved, Session: w.sess[s.session].id})
		}, nil},
		fault.SessionPause: {func(w *world, _ int32, s *strike) { w.pause(s.session, 1) },
			func(w *world, _ int32, s *strike) { w.pause(s.session, -1) }},
		fault.PollSlow: {func(w *world, _ int32, s *strike) {
			w.sess[s.session].slow = time.Duration(s.Ms) * time.Millisecond
		}, func(w *world, _ int32, s *strike) { w.sess[s.session].slow = 0 }},
		fault.PollHang: {func(w *world, _ int32, s *strike) { w.sess[s.session].hang++ },
			func(w *world, _ int32, s *strike) { w.sess[s.session].hang-- }},
	}
}

func clockStrikers() map[fault.Kind]striker {
	// changed lets a process notice nothing, but its next tick comes at another true time and its windows end elsewhere.
	changed := func(w *world, n *node) {
		if n.alive {
			n.tickAt = 0
			w.setTick(n)
			for i := range n.terms {
				if t := &n.terms[i]; t.gen != 0 {
					w.suspect(t.session)
				}
			}
		}
	}
	return map[fault.Kind]striker{
		// The wall clock steps by Ms, back if Jitter is not 0.
		fault.ClockStep: {func(w *world, _ int32, s *strike) {
			n := w.nodes[s.node]
			n.clock.rebase(w.t)
			step := s.Ms * core.Millisecond
			if s.Jitter != 0 {
				step = -step
			}
			n.clock.wall += step
			changed(w, n)
		}, nil},
		// Both clocks run at Ms parts per million off, slow if Jitter is not 0, until it heals.
		fault.ClockDrift: {func(w *world, _ int32, s *strike) {
			n := w.nodes[s.node]
			n.clock.rebase(w.t)
			s.was = n.clock.ppm
			n.clock.ppm = min(s.Ms, maxDrift)
			if s.Jitter != 0 {
				n.clock.ppm = -n.clock.ppm
			}
			changed(w, n)
		}, func(w *world, _ int32, s *strike) {
			n := w.nodes[s.node]
			n.clock.rebase(w.t)
			n.clock.ppm = s.was
			changed(w, n)
		}},
		// The machine sleeps: nothing runs, the monotonic clock stands still, the wall clock goes on.
		fault.Suspend: {func(w *world, _ int32, s *strike) {
			n := w.nodes[s.node]
			n.clock.rebase(w.t)
			n.clock.suspended = true
			w.freeze(n)
		}, func(w *world, _ int32, s *strike) {
			n := w.nodes[s.node]
			n.clock.wake(w.t)
			if n.gen == s.gen {
				w.thaw(n)
			}
		}},
	}
}
