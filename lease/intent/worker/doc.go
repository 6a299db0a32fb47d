// Package worker receives starts from the bus and runs their pipelines. It is the only owner of the leases on services and slots.
//
// # What is not promised
//
// Nothing can stop a pipeline of a frozen process, or one that ignores both Stop and its context: send the fences with every request, and
// let the tuner refuse older ones. A program that a pipeline starts outside the process (a transcoder) must end with the process. If
// Redis loses its data, accepted sessions that have not begun are lost, and running ones end when their worker finds no record of them.
//
// # What is promised
//
// A slot, and a service, serves one pipeline at a time (I1). A pipeline has both leases or none. The worker calls its Stop at least
// Config.Grace before the trust in either lease ends. Its context ends with that trust, and the leases are released only after it has
// returned. Some worker begins or ends every accepted start, whichever worker dies (I3). States are written under their fence.
//
// # Death of a worker
//
// Its leases expire after their TTL and its sessions end with R_LEASE_LOST; other workers begin its remaining starts. If a worker of the
// same name (Config.Name, by default the host's) starts on the same machine sooner, it finds its predecessor in the registry. It proves
// by process ID and start time that the predecessor is dead, and frees its leases at once. Without that proof (another machine, another
// container) the leases expire, unless Config.SingleWriter declares that there is no other worker.
package worker
