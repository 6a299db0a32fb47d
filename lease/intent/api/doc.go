// Package api is the HTTP API of intents. It authenticates, authorizes,
// validates and publishes requests. It runs no pipeline and, without
// Config.LeaseFirst, acquires no lease.
//
//	POST /intents        start or stop (scope write)
//	GET  /sessions/{id}  one session (scope read)
//	GET  /sessions       all, newest first, in pages (scope read)
//	GET  /openapi.json   this interface as an OpenAPI document
//	GET  /healthz        needs no token, from any address, like /readyz
//	GET  /metrics        needs no token; Config.Metrics, if set
//
// The API checks a request in this order and answers with the first failure:
// address (403), path and method (404, 405), token (401), scope (403), content
// type (415), size (413), body (400), quotas (429), Redis (404, 409, 503). Only
// the last step writes to Redis, so a refused request changes nothing (I4).
// Every error is a problem document (RFC 9457).
//
// A server for a Handler needs ReadHeaderTimeout, ReadTimeout, WriteTimeout and
// MaxHeaderBytes, against slow clients and endless requests.
package api
