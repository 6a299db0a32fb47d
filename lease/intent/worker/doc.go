// Package worker takes starts from the bus and runs their pipelines. It is the only owner of the leases on services and
// slots.
//
// # What is not promised
//
// Nothing can stop a pipeline of a process that is frozen, or that ignores both Stop and its context: send the fences along,
// and let the tuner refuse older ones. What a pipeline starts outside of the process (a transcoder) must end with the process.
// What Redis loses is lost: sessions that it had accepted and not begun are gone, running ones end when their worker finds no
// record of them.
//
// # What is promised
//
// A slot, and a service, serves one pipeline at a time: both leases or none, the pipeline is asked to stop Config.Grace
// before the trust in either ends, its context ends with that trust, and the leases are given back only after it has
// returned (I1). A start that was accepted is begun or ended by some worker, whichever dies (I3). States are written under
// their fence.
//
// # A worker that dies
//
// Its leases expire after their TTL and its sessions end with R_LEASE_LOST; what it had not begun is begun by others. A
// worker of the same name, the host's unless Config.Name gives one, that starts on the same machine sooner finds its predecessor
// in the registry, proves by its process ID and start time that it does not run any more, and frees what it held at once. Where
// that cannot be proven (another machine, another container) the leases expire, unless Config.SingleWriter says that there is no
// other worker.
package worker
