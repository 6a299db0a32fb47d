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
package core
