package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// marker begins the name in which leases are fenced off.
const marker = redisstore.OperatorPrefix

// fencedOff reports whether a lease is in the name of a leasectl. That lasts until it expires; one that never does was put there by
// somebody else, and is no fence.
func fencedOff(h *redisstore.Holding) bool {
	return strings.HasPrefix(h.Owner, marker) && h.Left != redisstore.Forever
}

// What became of a lease. The words stay.
const (
	endFree   = "free"       // nobody had it
	endGiven  = "given-back" // its owner gave it back, or lost it meanwhile
	endFenced = "fenced-off" // it was fenced off, and has not expired yet
	endFreed  = "expired"    // it was fenced off, and its TTL was waited out
	endKept   = "kept"       // nothing was done, or it was undone
)

// ended is what became of a lease. The fields of its JSON stay.
type ended struct {
	Lease  string `json:"lease"`
	Result string `json:"result"`
	Owner  string `json:"owner,omitempty"` // who had it
	Fence  int64  `json:"fence,omitempty"` // of that term
	Now    string `json:"now,omitempty"`   // who has it now
	Named  string `json:"named,omitempty"` // whom its key names, where it is not known that as many replicas acknowledged that as count
	TTLMs  int64  `json:"ttlMs,omitempty"` // of a lease that was fenced off
	TookMs int64  `json:"tookMs"`
	Text   string `json:"text,omitempty"` // what went wrong
}

// releasing is a release of some leases.
type releasing struct {
	g      *group
	by     string
	within time.Duration
	began  time.Time
	left   map[string]*term
	say    func(lease, text string)
}

// term is a term that is to end.
type term struct {
	redisstore.Holding

	fenced bool // in by's name, or in that of another leasectl
	end    *ended
}

func newRelease(f *flags) *cobra.Command {
	within, fence := 10*time.Second, int64(0)
	cmd := &cobra.Command{
		Use:   "release LEASE...",
		Short: "Have leases given back: by their owners, or else by waiting out their TTLs",
		Long: `It asks each owner to end its work and to give the lease back. An owner that does not do so within --within is fenced off: it
cannot renew the lease any more, and nobody can have it before it expires, which it does when it would have. So its owner has ceased to
believe in it by then, whether it lives, hangs or is dead, and no lease ever has two owners. Then whoever waits for it takes it; where
that is the owner itself, it has it under a new fence. To keep a lease from an instance, stop the instance.

Leaders of elections and workers of intents are not asked, since they would leave for good or drop a pipeline: they lose the lease at their
next renewal. Ctrl-C ends the wait, not what was begun. Exit code 1: a lease was not freed.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%w: which lease? leasectl status lists them", errUsage)
			}
			return nil
		},
		ValidArgsFunction: f.completeLeases,
		RunE: f.with(func(cmd *cobra.Command, g *group, args []string) error {
			switch {
			case within < 0:
				return fmt.Errorf("%w: --within %v: 0 or more", errUsage, within)
			case cmd.Flags().Changed("fence") && (fence <= 0 || len(args) != 1):
				return fmt.Errorf("%w: --fence %d: the fence of the term that is meant, of one lease", errUsage, fence)
			}
			if err := g.checkNames(args); err != nil {
				return err
			}
			if f.system != systemPolling {
				within = 0
			}
			return f.release(cmd, g, args, within, fence)
		}),
	}
	cmd.Flags().DurationVar(&within, "within", within, "how long an owner may take to give a lease back; 0: none is asked")
	cmd.Flags().Int64Var(&fence, "fence", 0, "release only this term; where another is current nothing is done (exit code 3)")
	return cmd
}

// harmless are names that a shell takes for a word whatever stands around them. Who names a lease need not be trusted, a shell inserts what
// candidates have in common as it is and evaluates the line to complete it further, and one that is a flag would be obeyed.
var harmless = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)

// completeLeases completes the names of leases that there are, where they are harmless. Nobody has sent the line off yet: a server that it
// names is told no password but its own, and whoever answers slowly keeps nobody waiting for more than --timeout.
func (f *flags) completeLeases(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	f.TypedAlone(cmd.Flags())
	g, err := f.open(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer g.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	all, err := g.Holdings(ctx, g.leaders...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, h := range all {
		if strings.HasPrefix(h.ID, begin) && harmless.MatchString(h.ID) {
			names = append(names, h.ID)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (f *flags) release(cmd *cobra.Command, g *group, names []string, within time.Duration, fence int64) error {
	r := &releasing{g: g, by: markerHere(), within: within, began: time.Now(), left: map[string]*term{}, say: func(lease, text string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", plain.Name(lease), plain.Text(text))
	}}
	ends, err := r.run(cmd.Context(), names, fence)
	if ends == nil {
		return err
	}
	var wrote error
	if f.json {
		wrote = writeJSON(cmd, map[string]any{"leases": ends})
	}
	undone := false
	for _, e := range ends {
		undone = undone || e.Result == endFenced || e.Result == endKept
		if !f.json && wrote == nil {
			_, wrote = fmt.Fprintln(cmd.OutOrStdout(), e.line())
		}
	}
	switch {
	case err != nil:
		return err
	case wrote != nil:
		return wrote
	case undone:
		return errFindings
	}
	return nil
}

// markerHere is a name that no other process has.
func markerHere() string {
	host, _ := os.Hostname()
	name := fmt.Sprintf("%s%s-%d-%s", marker, host, os.Getpid(), uuid.NewString()[:8])
	if redisstore.CheckInstance(name) != nil {
		name = marker + uuid.NewString()
	}
	return name
}

func (e *ended) line() string {
	name, took := plain.Name(e.Lease), (time.Duration(e.TookMs) * time.Millisecond).String()
	now := "; free"
	switch {
	case e.Now != "":
		now = "; now " + plain.Name(e.Now) + "'s"
	case e.Named != "":
		now = "; its key names " + plain.Name(e.Named) + ", which too few replicas acknowledged to count"
	}
	switch e.Result {
	case endFree:
		return name + ": nobody has it"
	case endGiven:
		return name + ": no longer " + plain.Name(e.Owner) + "'s under fence " + fenceText(e.Fence) + " after " + took + now
	case endFreed:
		return name + ": fenced off from " + plain.Name(e.Owner) + ", and expired after " + took + now
	case endFenced:
		return name + ": fenced off from " + plain.Name(e.Owner) + "; nobody has it before it expires in " + leftText(e.TTLMs)
	default:
		return name + ": " + plain.Text(e.Text)
	}
}

// run has the leases given back, and returns what became of each, in their order; nil with an error: nothing was done.
func (r *releasing) run(ctx context.Context, names []string, fence int64) ([]*ended, error) {
	ends := make([]*ended, 0, len(names))
	for _, name := range names {
		if _, twice := r.left[name]; twice {
			continue
		}
		e := &ended{Lease: name, Result: endFree}
		r.left[name] = &term{end: e}
		ends = append(ends, e)
	}
	found, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if fence != 0 {
		if h := found[names[0]]; h == nil || h.Fence != fence {
			return nil, fmt.Errorf("%w: %q: fence %d was named, and %s", redisstore.ErrNotCurrent, names[0], fence, holderText(h))
		}
	}
	for name, t := range r.left {
		r.begin(ctx, name, t, found[name])
	}
	err = r.await(ctx)
	for _, t := range r.left {
		if !t.fenced {
			t.end.Result = endKept
			t.end.Text = "still " + plain.Name(t.Owner) + "'s under fence " + fenceText(t.Fence)
		}
	}
	r.doubt(ctx, ends)
	return ends, err
}

// doubt takes back who has a lease now where that is not known to count: a key names whoever the master gave it to, also while too few
// replicas acknowledge that.
func (r *releasing) doubt(ctx context.Context, ends []*ended) {
	if !slices.ContainsFunc(ends, func(e *ended) bool { return e.Now != "" }) {
		return
	}
	if have, need, err := r.g.Acknowledged(ctx); err == nil && have >= need {
		return
	}
	for _, e := range ends {
		e.Now, e.Named = "", e.Now
	}
}

func holderText(h *redisstore.Holding) string {
	if h == nil {
		return "nobody has the lease"
	}
	return fmt.Sprintf("%q has the lease under fence %s", plain.Cut(h.Owner, 100), fenceText(h.Fence))
}

// read reads the leases that are left.
func (r *releasing) read(ctx context.Context) (map[string]*redisstore.Holding, error) {
	names := make([]string, 0, len(r.left))
	for name := range r.left {
		names = append(names, name)
	}
	all, err := r.g.Holdings(ctx, names...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*redisstore.Holding, len(all))
	for i := range all {
		found[all[i].ID] = &all[i]
	}
	return found, nil
}

// begin asks the owner of a lease for it.
func (r *releasing) begin(ctx context.Context, name string, t *term, h *redisstore.Holding) {
	switch {
	case h == nil:
		r.over(name, endFree, "")
		return
	case h.Foreign:
		t.end.Text = "its key holds no string: it is somebody else's"
		r.over(name, endKept, "")
		return
	}
	t.Holding = *h
	t.end.Owner, t.end.Fence = h.Owner, h.Fence
	if fencedOff(h) {
		t.fenced = true
		r.say(name, "was fenced off before by "+plain.Name(h.Owner)+"; it expires in "+leftText(leftMs(h.Left)))
		return
	}
	if r.within > 0 && h.Fence > 0 {
		if err := r.g.AskBack(ctx, r.by, r.within, *h); err != nil {
			r.say(name, "its owner cannot be asked: "+oneLine(err))
		}
	}
}

func (r *releasing) over(name, result, now string) {
	e := r.left[name].end
	e.Result, e.Now, e.TookMs, e.TTLMs = result, now, time.Since(r.began).Milliseconds(), 0
	delete(r.left, name)
}

// Pauses between two readings: short while an owner is to answer, longer while a TTL is waited out.
const (
	pauseMin = 20 * time.Millisecond
	pauseMax = 250 * time.Millisecond
)

// await waits until every lease is given back or has expired, and fences off those whose owners do not answer. It deletes nothing and
// shortens no life of a key, so nobody is granted a lease sooner than without it.
func (r *releasing) await(ctx context.Context) error {
	for len(r.left) > 0 {
		found, err := r.read(ctx)
		if err != nil {
			return quiet(ctx, err)
		}
		late := time.Since(r.began) >= r.within
		soonest := pauseMin
		if late {
			soonest = pauseMax
		}
		for name, t := range r.left {
			if err := r.advance(ctx, name, t, found[name], late); err != nil {
				return quiet(ctx, err)
			}
			if t.fenced && t.Left > 0 {
				soonest = min(soonest, max(t.Left, time.Millisecond))
			}
		}
		pause := time.NewTimer(soonest)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
	return nil
}

// advance takes note of what Redis has of a lease, h (nil: nobody has it).
func (r *releasing) advance(ctx context.Context, name string, t *term, h *redisstore.Holding, late bool) error {
	switch {
	case h != nil && fencedOff(h):
		t.fenced, t.Left, t.end.Result, t.end.TTLMs = true, h.Left, endFenced, leftMs(h.Left)
		return nil
	case h != nil && h.Owner == t.Owner && h.Fence == t.Fence && h.Owner != "":
		if t.fenced {
			r.say(name, "Redis has forgotten that it was fenced off, as after a failover; it is fenced off again")
			t.fenced = false
		}
		if !late {
			return nil
		}
		return r.fenceOff(ctx, name, t, h)
	case h == nil && t.fenced:
		r.over(name, endFreed, "")
	case h == nil:
		r.over(name, endGiven, "")
	case t.fenced:
		r.over(name, endFreed, h.Owner)
	default:
		r.over(name, endGiven, h.Owner)
	}
	return nil
}

func (r *releasing) fenceOff(ctx context.Context, name string, t *term, h *redisstore.Holding) error {
	fence, err := r.g.FenceOff(ctx, r.by, *h)
	switch {
	case errors.Is(err, redisstore.ErrNotCurrent): // its owner gave it back just now
		return nil
	case errors.Is(err, redisstore.ErrNoExpiry):
		t.end.Text = err.Error()
		r.over(name, endKept, h.Owner)
		return nil
	case errors.Is(err, redisstore.ErrUnacknowledged):
		r.say(name, err.Error()+"; a failover may undo it")
	case err != nil:
		return err
	}
	left, expires := r.expires(ctx, h)
	t.fenced, t.Left, t.end.Result, t.end.TTLMs = true, left, endFenced, leftMs(left)
	why := fmt.Sprintf("%s did not give it back within %v", plain.Name(h.Owner), r.within)
	if r.within == 0 {
		why = plain.Name(h.Owner) + " was not asked"
	}
	r.say(name, fmt.Sprintf("%s; fenced off under fence %d, it %s", why, fence, expires))
	return nil
}

// expires is when a lease that was h, and is fenced off, expires: one that never did has the group's quarantine to live since.
func (r *releasing) expires(ctx context.Context, h *redisstore.Holding) (left time.Duration, text string) {
	if h.Left != redisstore.Forever {
		return h.Left, "expires in " + leftText(leftMs(h.Left))
	}
	text = "never expired, and does now"
	if now, err := r.g.Holdings(ctx, h.ID); err == nil && len(now) == 1 && now[0].Left != redisstore.Forever {
		return now[0].Left, text + " in " + leftText(leftMs(now[0].Left)) + ", after the group's quarantine"
	}
	return h.Left, text + " after the group's quarantine"
}
