// Package worker takes starts from the bus and runs their pipelines. It is the only owner of the leases on services and slots.
//
// # What is not promised
//
// Nothing can stop a pipeline of a frozen process, or one that ignores both Stop and its context: send the fences along, and let the tuner
// refuse older ones. A program that a pipeline starts outside the process (a transcoder) must end with the process. If Redis loses its
// data, sessions that were accepted and not begun are gone, and running ones end when their worker finds no record of them.
//
// # What is promised
//
// A slot, and a service, serves one pipeline at a time (I1). A pipeline has both leases or none. It is asked to stop Config.Grace before
// the trust in either ends, its context ends with that trust, and the leases are given back only after it has returned. Some worker begins
// or ends every accepted start, whichever worker dies (I3). States are written under their fence.
//
// # Death of a worker
//
// Its leases expire after their TTL and its sessions end with R_LEASE_LOST; other workers begin its remaining starts. If a worker of the
// same name (Config.Name, by default the host's) starts on the same machine sooner, it finds its predecessor in the registry, proves by
// process ID and start time that it is dead, and frees its leases at once. If that cannot be proven (another machine, another container)
// the leases expire, unless Config.SingleWriter says that there is no other worker.
package worker
