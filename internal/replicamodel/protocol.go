package replicamodel

// Ack is what must have happened at a master's replicas before an answer counts.
type Ack uint8

// The acknowledgements.
const (
	AckNone     Ack = iota // the answer alone
	AckMajority            // WAIT: replicas that are a majority together with the master
	AckAll                 // WAIT: all replicas
	AckRecent              // no WAIT: the script sees that a majority acknowledged anything a short while ago
)

// Life is by what a script knows another life of a master.
type Life uint8

// The lives.
const (
	LifeRun  Life = iota // run_id: another process
	LifeRepl             // master_replid: another process, or promoted again
)

// Attached is what of the number of attachments is part of the epoch.
type Attached uint8

// The attachments.
const (
	AttachedNone Attached = iota
	AttachedFull          // sync_full
	AttachedAll           // sync_full + sync_partial_ok
)

// KRule is what a script does that brings another number of acknowledgements than the marker's.
type KRule uint8

// The rules. The one number is the marker's k, the other the caller's.
const (
	KHigher  KRule = iota // the higher of both is the epoch's, and everybody counts with the epoch's
	KRefuse               // a script that brings another is refused
	KIgnored              // the marker has none: everybody counts with its own
)

// Protocol is a set of rules.
type Protocol struct {
	Name     string
	Ack      Ack
	Life     Life
	Attached Attached
	K        KRule
	Confirm  bool    // the quarantine counts from the first acknowledged answer
	Forget   float64 // a confirmation older than this begins a new epoch; 0: never
	Lean     bool    // only acquisitions are probed: not what extends an open window
	Gossip   bool    // epochs are numbered, and clients tell each other the highest

	Broken string // the rule that is dropped, by its name in Mutants
}

func (p *Protocol) drops(rule string) bool { return p.Broken == rule }

// Protocols are the design, P8, and what was tried before it. docs/replicas.md says what each falls to.
var Protocols = []Protocol{
	{Name: "P8", Ack: AckMajority, Attached: AttachedAll, Lean: true},
	{Name: "P7", Ack: AckMajority, Attached: AttachedAll},
	{Name: "P7-repl", Ack: AckMajority, Life: LifeRepl, Attached: AttachedAll},
	{Name: "P8-own", Ack: AckMajority, Attached: AttachedAll, Lean: true, K: KIgnored},
	{Name: "P8-refuse", Ack: AckMajority, Attached: AttachedAll, Lean: true, K: KRefuse},
	{Name: "P0"},
	{Name: "P0-repl", Life: LifeRepl},
	{Name: "P1", Ack: AckMajority},
	{Name: "P1-repl", Ack: AckMajority, Life: LifeRepl},
	{Name: "P2", Ack: AckMajority, Confirm: true},
	{Name: "P2-repl", Ack: AckMajority, Life: LifeRepl, Confirm: true},
	{Name: "P2-gossip", Ack: AckMajority, Life: LifeRepl, Confirm: true, Gossip: true},
	{Name: "P3-D2", Ack: AckMajority, Life: LifeRepl, Confirm: true, Forget: 2 * ttl},
	{Name: "P3-D1", Ack: AckMajority, Life: LifeRepl, Confirm: true, Forget: ttl},
	{Name: "P3-D.4", Ack: AckMajority, Life: LifeRepl, Confirm: true, Forget: 0.4 * ttl},
	{Name: "P4", Ack: AckMajority, Life: LifeRepl, Attached: AttachedFull},
	{Name: "P5", Ack: AckMajority, Life: LifeRepl, Attached: AttachedFull, Confirm: true},
	{Name: "P6", Ack: AckMajority, Life: LifeRepl, Attached: AttachedFull, Confirm: true, Forget: ttl},
	{Name: "all", Ack: AckAll, Life: LifeRepl},
	{Name: "all-run", Ack: AckAll},
	{Name: "recent", Ack: AckRecent, Life: LifeRepl},
	{Name: "recent-attached", Ack: AckRecent, Life: LifeRepl, Attached: AttachedAll},
}

// Find returns the protocol of that name.
func Find(name string) (Protocol, bool) {
	for _, p := range Protocols {
		if p.Name == name {
			return p, true
		}
	}
	return Protocol{}, false
}

// Mutant is a rule of P8 that is dropped.
type Mutant struct {
	Rule string
	Why  string
	With []string // switches beside those of Standing without which it is not seen
	Of   int      // nodes, 0: 3
	From uint64   // the first seed, where few break; 0: 1
	Runs uint64   // within how many runs it breaks
	// Fences says that its fences fall, and nothing overlaps.
	Fences bool
	// Unseen says that the model does not break without the rule; the library keeps it, for one Redis needs it.
	Unseen bool
}

// Mutants are all that is known. The seeds are 1 to Runs.
var Mutants = []Mutant{
	{Rule: "wait", Why: "an answer counts without WAIT", Runs: 20},
	{Rule: "connection", Why: "WAIT goes over another connection, where it waits for nothing", Runs: 40},
	{Rule: "configured", Why: "the number of replicas is learnt from the master", Runs: 40},
	{Rule: "probe", Why: "the epoch is not read again after WAIT", Runs: 120},
	{Rule: "attachments", Why: "the epoch does not say how often a replica attached itself", Runs: 40},
	{Rule: "partial", Why: "the epoch counts full synchronizations only", With: []string{"return"}, Runs: 4000},
	{Rule: "renewal", Why: "a renewal counts with one acknowledgement less", Of: 5, Runs: 300},
	{Rule: "pending", Why: "a renewal is believed while its WAIT is pending", Runs: 40},
	{Rule: "majority", Why: "one acknowledgement less than a majority", Of: 5, Runs: 60},
	{Rule: "quarantine", Why: "a new epoch has no quarantine", Runs: 20},
	{Rule: "length", Why: "a quarantine of half a TTL", Runs: 120},
	{Rule: "adoption", Why: "a lease is adopted in quarantine", Runs: 120},
	{Rule: "release", Why: "a release goes by owner, whatever its fence", Runs: 40},
	{Rule: "stamp", Why: "trust counts from the answer", Runs: 300},
	{Rule: "ended", Why: "a renewal counts also after the window that it extends", Runs: 300, Unseen: true},
	{Rule: "fence", Why: "a fence is the last one and one more", Runs: 60, Fences: true},
	{Rule: "epoch", Why: "scripts act in another epoch than the caller's", From: 916, Runs: 1},
	{Rule: "closed", Why: "a re-assertion counts also after its window, and after the quarantine", Runs: 300, Unseen: true},
	{Rule: "superseded", Why: "a lease is asserted over a higher fence", Runs: 300, Unseen: true},
	{Rule: "void", Why: "a release does not void earlier answers", Runs: 300, Unseen: true},
}
