// Package worker receives starts from the bus and runs their pipelines. Only
// workers own the leases of resources and slots.
//
// # What is not promised
//
// Nothing can stop a pipeline of a frozen process, or one that ignores both
// Stop and its context. Send the fences with every request, and let the
// resource and the slot refuse older ones. A program outside the process, such
// as a transcoder, must end with the process. If Redis loses its data, accepted
// sessions that have not begun are lost, and running ones end when their worker
// finds no record of them.
//
// # What is promised
//
// A slot, and a resource, serves one pipeline at a time (I1). A pipeline has
// both leases or none. The worker calls the pipeline's Stop at least
// Config.Grace before the trust in either lease ends. The pipeline's context
// ends with that trust. After the pipeline has returned, the worker releases
// the leases. If a worker dies, another worker begins or ends its accepted
// starts (I3). A worker writes a session's state under the fence of its lease.
//
// # Death of a worker
//
// A dead worker's leases expire after their TTL, and its sessions end with
// R_LEASE_LOST. Other workers begin its remaining starts. If a worker of the
// same name (Config.Name, by default the host's) starts on the same machine
// sooner, it finds its predecessor in the registry. If process ID and start
// time prove the predecessor dead, the new worker frees the predecessor's
// leases at once. Without that proof (another machine or container) the leases
// expire, unless Config.SingleWriter declares that there is no other worker.
package worker
