// Package intentnames has the names by which other programs know a system of intents.
package intentnames

// Names are these names. A lease is called Resource:<resource> or Slot:<slot>, a request <Verb>start or <Verb>stop.
type Names struct {
	KeyPrefix   string
	LeasePrefix string // of the leases' keys; "": KeyPrefix + "lease:"
	Resource    string
	Slot        string
	Verb        string
	Path        string // of the API, before /intents and /sessions
	Scope       string // of a token, before write and read

	ResourceMember string // of the JSON documents, like AtMember
	AtMember       string
	NoSlot         string // the reason

	Intents, Replays, Starts string // metrics
	Mode                     string // label of Intents
	Modes                    [2]string
	RejectedNoSlot           string // value of the label outcome of Starts
}

// Neutral are the default names.
var Neutral = Names{
	KeyPrefix: "intent:", Resource: "resource", Slot: "slot", ResourceMember: "resource", AtMember: "at", NoSlot: "R_NO_SLOT",
	Intents: "intent_requests_total", Replays: "intent_replays_total", Starts: "intent_starts_total",
	Mode: "leased", Modes: [2]string{"false", "true"}, RejectedNoSlot: "rejected_no_slot",
}

// ADR003 are those of the specification.
var ADR003 = Names{
	KeyPrefix: "v3:", LeasePrefix: "lease:", Resource: "service", Slot: "tuner", Verb: "stream.", Path: "/api/v3", Scope: "v3:",
	ResourceMember: "serviceRef", AtMember: "startMs", NoSlot: "R_NO_TUNER",
	Intents: "v3_intents_total", Replays: "v3_idempotent_replay_total", Starts: "v3_worker_start_total",
	Mode: "mode", Modes: [2]string{"phase2", "phase1"}, RejectedNoSlot: "rejected_no_tuner",
}

// ResourceLease returns the name of a resource's lease.
func (n *Names) ResourceLease(resource string) string { return n.Resource + ":" + resource }

// SlotLease returns the name of a slot's lease.
func (n *Names) SlotLease(slot string) string { return n.Slot + ":" + slot }

// Reason returns the name of a reason.
func (n *Names) Reason(reason string) string {
	if reason == Neutral.NoSlot {
		return n.NoSlot
	}
	return reason
}

// NeutralReason is the inverse of Reason.
func (n *Names) NeutralReason(name string) string {
	if name == n.NoSlot {
		return Neutral.NoSlot
	}
	return name
}
