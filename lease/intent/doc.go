// Package intent has the types of intents. A client requests work on a resource
// (Request), and the work has a record (Session, State, Reason). A request is
// accepted once. One worker does the work, and holds two leases meanwhile: of
// the resource, and of one slot of a pool. This package does no I/O. Its
// sub-packages do:
//
//	api     an http.Handler that authenticates, validates and publishes
//	store   records, idempotency keys and the bus, on Redis
//	worker  receives requests, owns the leases, runs pipelines
//	metrics Prometheus collectors
//
// # Equal requests
//
// While a session has not ended, every equal request returns that session.
// Requests are equal if they have the same key, which is the SHA-256, in
// lower-case hexadecimal, of
//
//	v1:start:<Resource>:<Profile>:<second of At, or 0>
//
// Colons at the end of Resource are cut, because clients write references with
// and without them. Only Resource may have colons, so no two different requests
// have the same text.
package intent
