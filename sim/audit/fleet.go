package audit

import (
	"strings"

	"github.com/leasestorm/leasestorm/sim/audit/logs"
)

// fleet is a set of instances that know each other's epochs. A fleet that was found to be part of another refers to it.
type fleet struct {
	of     *fleet
	since  int64 // its first entry
	active int64 // the last time at which a lease was confirmed
}

func (f *fleet) root() *fleet {
	for f.of != nil {
		f = f.of
	}
	return f
}

// instances are those that logged recently, and their fleets.
type instances struct {
	all    map[string]*instance
	epochs map[string]*instance // an instance that knows it
	runs   map[string]int       // numbers of Redis' clocks, by the server's run
	clocks int                  // the last of them; a step of Redis' clock makes all of them another clock
	named  map[string]bool      // instances that others name and whose log is missing
	pruned int64                // when ended instances were forgotten last
	ended  int64                // how many were
}

// get returns the instance of an entry.
func (s *instances) get(e *logs.Entry, now, clockError int64) *instance {
	i := s.all[e.Instance]
	if i == nil {
		i = &instance{
			id: e.Instance, open: map[*lease]*term{}, clock: hostClock{err: clockError}, first: now, regular: now, nextDue: forever.hi,
			fleet: &fleet{since: now},
		}
		s.all[e.Instance] = i
		delete(s.named, e.Instance)
	}
	if e.Owner != "" && s.all[e.Owner] == nil {
		s.named[e.Owner] = true
	}
	if e.At != i.last {
		i.before, i.last = i.last, e.At
	}
	return i
}

// prune forgets instances that have ended, from time to time. It reports whether it did.
func (s *instances) prune(now, ttl int64) bool {
	const memoryTTLs = 10
	if ttl == 0 || now <= s.pruned+memoryTTLs*ttl {
		return false
	}
	s.pruned = now
	for id, i := range s.all {
		if i.last > now-memoryTTLs*ttl || i.takeovers > 0 {
			continue
		}
		for _, t := range i.terms() {
			t.finish(logs.Other, i.last, "", now+2*ttl)
		}
		delete(s.all, id)
		s.ended++
	}
	return true
}

// meets records that the instance knows an epoch: instances that know the same one are one fleet.
func (s *instances) meets(i *instance, epoch string) {
	if epoch == "" {
		return
	}
	i.epoch = epoch
	server, _, _ := strings.Cut(epoch, " ")
	server, _, _ = strings.Cut(server, ":")
	if s.runs[server] == 0 {
		s.clocks++
		s.runs[server] = s.clocks
	}
	i.run = s.runs[server]
	o := s.epochs[epoch]
	if o == nil {
		s.epochs[epoch] = i
		return
	}
	if from, to := i.fleet.root(), o.fleet.root(); from != to {
		from.of, to.active, to.since = to, max(from.active, to.active), min(from.since, to.since)
	}
}

// redisStepped forgets what was known of the clocks of Redis.
func (s *instances) redisStepped() {
	clear(s.runs)
	for _, o := range s.all {
		o.run, o.clock.off = 0, [2]offset{}
	}
}

// fleets returns how many fleets the instances are.
func (s *instances) fleets() int64 {
	roots := map[*fleet]bool{}
	for _, i := range s.all {
		roots[i.fleet.root()] = true
	}
	return int64(len(roots))
}

// apart reports whether two instances may be of two fleets: they have known no epoch in common, and both fleets had leases at once.
func apart(p *limits, i, o *instance) bool {
	known := i.epoch != "" && o.epoch != ""
	f, g := i.fleet.root(), o.fleet.root()
	return known && f != g && f.active > g.since+int64(p.RenewTimeout)
}

// disturbed reports whether an instance but the gone one logged trouble since a TTL before from.
func (s *instances) disturbed(p *limits, gone *instance, from int64) bool {
	for _, i := range s.all {
		if i != gone && i.trouble >= from-int64(p.TTL) {
			return true
		}
	}
	return false
}

// undisturbed reports whether an instance that could have acquired the lease has renewed regularly throughout.
func (s *instances) undisturbed(p *limits, gone *instance, from, to int64) bool {
	from += int64(p.TTL - p.Renew - p.RenewTimeout)
	for _, i := range s.all {
		if i != gone && i.last >= from && i.regular <= from && i.renewedAt >= to {
			return true
		}
	}
	return false
}
