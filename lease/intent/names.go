package intent

import "github.com/leasestorm/leasestorm/internal/intentnames"

// Names selects the names that other programs see: those of keys, leases,
// paths, JSON members, request types, scopes and metrics. The zero value has
// the neutral names of this documentation. The APIs, workers and metrics of one
// system need the same Names.
type Names struct{ table *intentnames.Names }

// ADR003 returns the names of a system that streams the services of tuners.
// docs/intents.md lists them.
func ADR003() Names { return Names{&intentnames.ADR003} }

// Table gives the names to the packages of this module.
func (n Names) Table() *intentnames.Names {
	if n.table == nil {
		return &intentnames.Neutral
	}
	return n.table
}
