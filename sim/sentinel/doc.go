// Package sentinel plays switches of master on real Redis servers that Redis Sentinel watches, or that are a cluster, while three
// instances share leases through failover clients, and judges whether any lease ever had two owners (G1).
//
// It is for tests: it starts the servers (internal/redistest) and needs the library. The instances run in this process, so
// that one clock stamps what each believes.
package sentinel
