// Package core holds the rules of leases and nothing else: terms and trust windows, the keeper of many leases, the
// instance registry, placement and waiting.
//
// A Core is a pure state machine: Step takes one Event and returns the Effects that follow from it. Time, answers and
// notices arrive inside events; requests and news leave as effects. The package reads no clock, does no I/O, starts no
// goroutine, draws no random number and ranges over no map, so the same sequence of events always gives the same
// sequence of effects, under a production shell as in virtual time. A Core is not safe for concurrent use.
//
// # A lease, as one instance sees it
//
//	       want / placed            granted                    attempt failed
//	idle ───────────────▶ acquiring ────────▶ owned(certain) ─────────────────▶ owned(uncertain)
//	 ▲                    │      ▲              │   ▲  │  ▲                        │   │
//	 │          held by   ▼      │ expiry,      │   │  └──┴── renewed ─────────────┘   │
//	 │          another waiting ─┘ release      │   └ renewed                          │
//	 │                                          │ drop                                 │ window ends,
//	 ├──────────────── releasing ◀──────────────┘                                      │ or Redis says so
//	 └─────────────────────────────────────── lost ◀───────────────────────────────────┘
//
// # What every rule rests on
//
//   - An attempt is stamped before it is sent; success gives trust until stamp + TTL − margin (G1).
//   - After an attempt without an answer, nothing that extends is sent before a read was answered (G1, G5).
//   - A term is named by owner and fence; nothing of term k touches term k+1 (G3, G10).
//   - Every op carries the epoch the instance knows and is void in another one (G9).
//
// # Glossary
//
//	lease          a Redis key that holds the name of its owner and expires
//	term           the time from one grant of a lease to its end, named by owner and fence
//	fence          the number of a term; a later grant has a higher one
//	window         how long a term is trusted without another word: from a stamp to stamp + TTL − margin
//	stamp          the instant before an op is sent (Op.Sent)
//	margin         the part of a TTL that is not trusted, because clocks run at different rates
//	uncertain      of a term: an attempt failed, so nothing begins under it until it is renewed
//	reassert       to have a term confirmed after a loss of data, with its fence
//	trace          a key that may be in this instance's name without a term here
//	unanswered     of a lease: an attempt to acquire it had no answer, so the key may be ours
//	epoch          the life of Redis' data, from one loss to the next
//	group          the instances that share an epoch, and have agreed on a quarantine
//	quarantine     the time at the beginning of an epoch in which terms are reasserted and none is granted
//	outside        of an instance: its group's quarantine is too short for it, so it takes no part
//	superseded     of an epoch: another one followed it, so it is not believed again
//	blocked        of acquisition: nothing may be acquired before some instant
//	silence        the time in which Redis does not answer; only reads are sent
//	probe          a read of the epoch, to find out whether Redis answers
//	pace           how long requests of a kind wait after they failed
//	heartbeat      a Redis key that says that an instance lives, and expires
//	fresh          of a heartbeat: it does not expire soon, so it stands for its instance's leases
//	overdue        of a heartbeat: it is about to expire and was not refreshed
//	suspect        of an instance: it seems dead although its heartbeat lives
//	withdrawn      of an instance: it left the registry for a while, because it cannot take what it is given
//	session        what a lease is for; placement spreads sessions over instances
//	placement      who should own which session; each instance decides it for itself, and all alike
//	target         the instance that should take a session
//	quota          how many sessions an instance should own
//	discovery      a reading of all sessions, heartbeats and owners (OpLook)
//	stagger        how long an instance leaves a free lease to those before it in order
//	heir           the instance that a lease is released to
//	yield          to end the work under a term, so that it can be given back
//	stuck          of a lease: its work does not end, so it is neither renewed nor acquired
//	unwanted       of a lease: no user wants it, and its session is gone or paused
package core
