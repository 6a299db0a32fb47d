// Package api is the HTTP API of intents. It authenticates, authorizes, validates and publishes requests. It runs no pipeline and, except
// in phase 1 of the migration, acquires no lease.
//
//	POST /api/v3/intents        start or stop (scope v3:write)
//	GET  /api/v3/sessions/{id}  one session (scope v3:read)
//	GET  /api/v3/sessions       all, newest first, in pages (scope v3:read)
//	GET  /api/v3/openapi.json   this interface as an OpenAPI document
//	GET  /healthz, /readyz      need no token, from any address
//	GET  /metrics               needs no token; Config.Metrics, if set
//
// The API checks a request in this order and answers with the first failure: address (403), path and method (404, 405), token (401),
// scope (403), content type (415), size (413), body (400), quotas (429), Redis (404, 409, 503). Only the last step writes to Redis, so a
// refused request changes nothing (I4). Every error is a problem document (RFC 9457).
package api
