// Package intent has the types of intents: a client's request (Start), its record (Session, State, Reason), and the key by which the
// store recognizes equal requests. It does no I/O. Its sub-packages do:
//
//	api     an http.Handler that authenticates, validates and publishes, but never runs a pipeline
//	store   records, idempotency keys and the bus, on Redis
//	worker  receives starts from the bus, owns the leases, runs pipelines
//	metrics Prometheus collectors
//
// # The canonical form
//
// A start's key is the SHA-256, in lower-case hexadecimal, of
//
//	v1:stream.start:<ServiceRef>:<Profile>:<Bucket>
//
// ServiceRef is 1 to 256 bytes of printable ASCII without space. Trailing colons are cut, because clients write references with and
// without them. Profile is 1 to 64 of A-Z a-z 0-9 . _ - ("default" if none is given). Bucket is "0" for live, and for catch-up the start
// time in whole seconds. Only references may have colons, so the form is unambiguous when read from its end.
//
// # Repeated starts
//
// While a session has not ended, every equal start returns that session. Once it has ended, an equal start makes a new session.
package intent
