package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasestorm/leasestorm/internal/core"
)

// LookChunk is how many keys one script call of a discovery reads, in 0.6 ms.
const LookChunk = 1000

// Look executes an OpLook, a discovery: it reads the owner of each session and the remaining life of each heartbeat. It reads in chunks,
// so the result is no snapshot, and it fails if Redis loses data meanwhile. All leases of an owner share one string.
func (s *Store) Look(ctx context.Context, op *core.Op, sessions *core.Sessions) core.Answer {
	a, err := s.wire.Look(op, sessions, s.reader(ctx))
	if err != nil {
		return s.fail(ctx, op, err)
	}
	return a
}

// Reader has the reads that a discovery needs.
type Reader struct {
	Run  func(Call) ([]any, error)
	Scan func(prefix string) ([]string, error) // distinct names of the keys with a prefix, without it
}

func (s *Store) reader(ctx context.Context) Reader {
	return Reader{
		Run:  func(c Call) ([]any, error) { return s.run(ctx, c) },
		Scan: func(prefix string) ([]string, error) { return s.scan(ctx, prefix) },
	}
}

// Look is Store.Look with the given reads. It returns their errors, and an error if the replies contradict each other.
func (w Wire) Look(op *core.Op, sessions *core.Sessions, r Reader) (core.Answer, error) {
	a, err := core.Answer{Seq: op.Seq, Look: &core.Look{Sessions: sessions}}, error(nil)
	if !op.Known(sessions.Sum()) {
		a, err = w.LookOwners(op, sessions, r)
	}
	if err == nil {
		a.Look.Nodes, err = w.readNodes(op, r, &a)
	}
	return a, err
}

// LookOwners is Look without the heartbeats.
func (w Wire) LookOwners(op *core.Op, sessions *core.Sessions, r Reader) (core.Answer, error) {
	a := core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
	a.Look = &core.Look{Sessions: sessions, Owners: make([]string, len(sessions.IDs))}
	intern := map[string]string{}
	for start := 0; start < len(sessions.IDs); start += LookChunk {
		end := min(start+LookChunk, len(sessions.IDs))
		if err := w.readOwners(op, sessions.IDs[start:end], a.Look.Owners[start:end], intern, r, &a); err != nil {
			return a, err
		}
	}
	return a, nil
}

// head reads the head of a reply into a, and checks that the epoch has not changed since the previous reply.
func head(reply []any, a *core.Answer) ([]any, error) {
	before := a.Epoch
	rest, err := decodeHead(reply, a)
	if err == nil && before != "" && before != a.Epoch {
		return nil, errors.New("the epoch changed during the discovery")
	}
	return rest, err
}

func (w Wire) readOwners(op *core.Op, ids, owners []string, intern map[string]string, r Reader, a *core.Answer) error {
	for _, id := range ids {
		if err := w.CheckLease(id); err != nil {
			return err
		}
	}
	reply, err := r.Run(w.named(op, ownersScript, w.opt.LeasePrefix, ids))
	if err != nil {
		return err
	}
	rest, err := head(reply, a)
	if err != nil {
		return err
	}
	packed, ok := rest[0].(string)
	if !ok || len(packed) != 2*len(ids) {
		return fmt.Errorf("the reply of Redis holds the owners of %d leases in %d bytes", len(ids), len(packed))
	}
	names := make([]string, len(rest))
	for i, v := range rest[1:] {
		name, _ := v.(string)
		if _, ok := intern[name]; !ok {
			intern[name] = name
		}
		names[i+1] = intern[name]
	}
	for i := range owners {
		n := int(packed[2*i])<<8 | int(packed[2*i+1])
		if n >= len(names) {
			return fmt.Errorf("the reply of Redis names owner %d of %d", n, len(names)-1)
		}
		owners[i] = names[n]
	}
	return nil
}

// readNodes finds the live heartbeats. It calls the script at least once, so that a has the epoch.
func (w Wire) readNodes(op *core.Op, r Reader, a *core.Answer) ([]core.Seen, error) {
	found, err := r.Scan(w.opt.NodePrefix)
	if err != nil {
		return nil, err
	}
	seen := make([]core.Seen, 0, len(found))
	for start := 0; start == 0 || start < len(found); start += LookChunk { // at least one request, for its epoch
		chunk := found[start:min(start+LookChunk, len(found))]
		reply, err := r.Run(w.named(op, nodesScript, w.opt.NodePrefix, chunk))
		if err != nil {
			return nil, err
		}
		rest, err := head(reply, a)
		if err != nil {
			return nil, err
		}
		results := make([]core.Result, len(chunk))
		if err := decodeItems(rest, results); err != nil {
			return nil, err
		}
		for i, r := range results {
			if r.Outcome == core.OutAlive && CheckInstance(chunk[i]) == nil {
				seen = append(seen, core.Seen{ID: chunk[i], PTTL: r.PTTL})
			}
		}
	}
	return seen, nil
}

// Nodes returns the live heartbeats in no particular order.
func (s *Store) Nodes(ctx context.Context) ([]core.Seen, error) {
	var a core.Answer
	return s.wire.readNodes(&core.Op{}, s.reader(ctx), &a)
}
