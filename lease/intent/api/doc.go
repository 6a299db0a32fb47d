// Package api is the HTTP face of intents: it authenticates, authorizes, validates, and publishes. It runs nothing and, but
// for phase 1 of the migration, takes no lease.
//
//	POST /api/v3/intents        start or stop (scope v3:write)
//	GET  /api/v3/sessions/{id}  one session (scope v3:read)
//	GET  /api/v3/sessions       all, newest first, in pages (scope v3:read)
//	GET  /api/v3/openapi.json   this interface as an OpenAPI document
//	GET  /healthz, /readyz      no token wanted, nor an allowed address
//	GET  /metrics               no token wanted; what Config.Metrics says, if it is given
//
// A request is looked at in this order, and the first thing wrong with it is its answer: address (403), path and method (404,
// 405), token (401), scope (403), content type (415), size (413), body (400), quotas (429), Redis (404, 409, 503). Nothing is written to
// Redis before the last of them, so a request that is refused changes nothing (I4). Every error is a problem document (RFC
// 9457).
package api
