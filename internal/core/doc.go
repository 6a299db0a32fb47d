// Package core contains the rules of leases: terms and trust windows, the keeper of many leases, the instance registry, placement and
// waiting.
//
// A Core is a pure state machine: Step takes one Event and returns the resulting Effects. Time, answers and notices arrive in events;
// requests and notifications leave as effects. The package reads no clock, does no I/O, starts no goroutine, draws no random number and
// depends on no map order. Therefore the same events always give the same effects, in production and in virtual time. A Core is not
// safe for concurrent use.
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
// # Invariants
//
//   - An attempt is stamped before it is sent; success gives trust until stamp + TTL − margin (G1).
//   - After an attempt without an answer, a core extends nothing before a read is answered (G1, G5).
//   - Owner and fence identify a term; no request of term k ends term k+1 (G3, G10). A late renewal can only extend it.
//   - Every op carries the epoch that the instance knows and is void in any other (G9).
//
// # Glossary
//
//	lease          a Redis key that holds the name of its owner and expires
//	term           the time from one grant of a lease to its end, named by owner and fence
//	fence          the number of a term; a later grant has a higher one
//	window         the time in which a term is trusted: from a stamp to stamp + TTL − margin
//	stamp          the instant before an op is sent (Op.Sent)
//	margin         the part of a TTL that is not trusted, because clocks run at different rates
//	uncertain      of a term: an attempt failed, so no work begins under it until it is renewed
//	reassert       to restore a term with its fence after a loss of data
//	trace          a key that Redis may hold in this instance's name without a term here
//	unanswered     of a lease: an attempt to acquire it had no answer, so the key may be ours
//	epoch          the life of Redis' data, from one loss to the next
//	group          the instances that share an epoch, and have agreed on a quarantine
//	quarantine     the time at the beginning of an epoch in which terms are reasserted and none is granted
//	outside        of an instance: its group's quarantine is too short for it, so it takes no part
//	superseded     of an epoch: another one followed it, so it is not believed again
//	blocked        of acquisition: not allowed before some instant
//	silence        the time in which Redis does not answer; only reads are sent
//	probe          a read of the epoch, to find out whether Redis answers
//	pace           how long requests of a kind wait after they failed
//	heartbeat      a Redis key that expires unless its instance lives and refreshes it
//	fresh          of a heartbeat: it does not expire soon, so its instance's leases need no watching
//	overdue        of a heartbeat: it is about to expire and was not refreshed
//	suspect        of an instance: it seems dead although its heartbeat lives
//	withdrawn      of an instance: it left the registry for a while, because its acquisitions fail
//	session        a unit of work that a lease protects; placement spreads sessions over instances
//	placement      the owner that each session should have; every instance computes the same one
//	target         the instance that should take a session
//	quota          how many sessions an instance should own
//	discovery      a question for what changed (OpNews), and a reading of it (OpLook)
//	stagger        how long an instance leaves a free lease to those before it in order
//	heir           the instance that a lease is released to
//	yield          to end the work under a term, so that its lease can be released
//	stuck          of a lease: its work does not end, so it is neither renewed nor acquired
//	unwanted       of a lease: no user wants it, and its session is gone or paused
package core
