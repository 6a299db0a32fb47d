package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Results of a release. The texts are stable.
const (
	endFree  = "free"       // nobody owned the lease, or no lease has that name
	endGiven = "given-back" // its owner released or lost it
	endKept  = "kept"       // its owner still has it
)

// ended is the result for one lease. The fields of its JSON are stable.
type ended struct {
	Lease  string `json:"lease"`
	Result string `json:"result"`
	Owner  string `json:"owner,omitempty"` // owner at the start
	Fence  int64  `json:"fence,omitempty"` // fence of that term
	Now    string `json:"now,omitempty"`   // owner at the end
	Named  string `json:"named,omitempty"` // instead of Now, if too few replicas acknowledge for an owner to count
	TTLMs  int64  `json:"ttlMs,omitempty"` // of a kept lease; -1: it never expires
	TookMs int64  `json:"tookMs"`
	Text   string `json:"text,omitempty"` // why it was kept, and the remedy
}

type releasing struct {
	g      *group
	asks   bool // requests are sent to the owners
	within time.Duration
	began  time.Time
	left   map[string]*term
	say    func(lease, text string)
}

type term struct {
	redisstore.Holding

	renewed bool // its owner has renewed it since
	end     *ended
}

func newRelease(f *flags) *cobra.Command {
	within, fence := 10*time.Second, int64(0)
	cmd := &cobra.Command{
		Use:   "release LEASE...",
		Short: "Ask the owners of leases to end their work and release them",
		Long: `Ask each owner to end its work and to release the lease. For an owner that does not do so within --within, release says when the
lease expires or, if the owner still renews it, which instance to stop. release never takes a lease from an owner.

Any instance may acquire the lease next, even the one that has just released it (under a new fence). To keep a lease from an instance,
stop the instance.

release asks no leader of an election, which would leave for good, and no worker of intents, which would drop a pipeline. Stop the
instance that release names instead. Exit code 1: an owner still has a lease, or nobody holds a lease of that name.`,
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
				return fmt.Errorf("%w: --fence %d: give one lease, and the fence of its term", errUsage, fence)
			}
			if err := g.checkNames(args); err != nil {
				return err
			}
			return f.release(cmd, g, args, within, fence)
		}),
	}
	cmd.Flags().DurationVar(&within, "within", within, "how long an owner may take to release a lease; 0: ask no owner")
	cmd.Flags().Int64Var(&fence, "fence", 0, "release only this term; if another is current, do nothing (exit code 3)")
	return cmd
}

// harmless matches names that a shell reads as one argument, because a shell inserts the common part of candidates unquoted.
var harmless = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)

// completeLeases completes existing leases with harmless names. A half-typed line may name any server, so only the environment's own
// Redis gets the environment's password.
func (f *flags) completeLeases(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	f.WithholdPassword()
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
	asks := f.system == systemLeases || f.system == systemPolling
	r := &releasing{g: g, asks: asks && within > 0, within: within, began: time.Now(), left: map[string]*term{},
		say: func(lease, text string) {
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
	failed := false
	for _, e := range ends {
		failed = failed || e.Result != endGiven
		if !f.json && wrote == nil {
			_, wrote = fmt.Fprintln(cmd.OutOrStdout(), e.line())
		}
	}
	switch {
	case err != nil:
		return err
	case wrote != nil:
		return wrote
	case failed:
		return errFindings
	}
	return nil
}

func (e *ended) line() string {
	name, now := plain.Name(e.Lease), "; free"
	switch {
	case e.Now != "":
		now = "; now " + plain.Name(e.Now) + "'s"
	case e.Named != "":
		now = "; its key names " + plain.Name(e.Named) + ", but too few replicas have acknowledged that"
	}
	switch e.Result {
	case endFree:
		return name + ": nobody holds a lease of this name; leasectl status lists them"
	case endGiven:
		return name + ": no longer " + plain.Name(e.Owner) + "'s under fence " + fenceText(e.Fence) + " after " +
			(time.Duration(e.TookMs) * time.Millisecond).String() + now
	default:
		return name + ": " + plain.Text(e.Text)
	}
}

// run requests the leases and returns a result for each, in their order. A nil result with an error means that nothing was done.
func (r *releasing) run(ctx context.Context, names []string, fence int64) ([]*ended, error) {
	ends := make([]*ended, 0, len(names))
	for _, name := range names {
		if r.left[name] == nil {
			e := &ended{Lease: name, Result: endFree}
			r.left[name] = &term{end: e}
			ends = append(ends, e)
		}
	}
	found, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if fence != 0 {
		if h := found[names[0]]; h == nil || h.Fence != fence {
			return nil, fmt.Errorf("%w: %q: --fence is %d, but %s", errNotCurrent, names[0], fence, holderText(h))
		}
	}
	for name, t := range r.left {
		r.begin(ctx, name, t, found[name])
	}
	err = r.await(ctx)
	for name, t := range r.left {
		t.end.Text = t.advice(r.asks, r.within)
		r.over(name, endKept, "")
		t.end.TTLMs = leftMs(t.Left)
	}
	return ends, errors.Join(err, r.doubt(ctx, ends))
}

// doubt moves Now to Named if too few replicas acknowledge. This server granted the named owner's lease, but that grant does not count.
func (r *releasing) doubt(ctx context.Context, ends []*ended) error {
	now, err := r.g.Group(ctx)
	if err != nil {
		return quiet(ctx, err)
	}
	if n, known := now.Acknowledging(); now.Acks == 0 || known && n >= now.Acks {
		return nil
	}
	for _, e := range ends {
		e.Now, e.Named = "", e.Now
	}
	return nil
}

func holderText(h *redisstore.Holding) string {
	if h == nil {
		return "nobody has the lease"
	}
	return fmt.Sprintf("%q has the lease under fence %s", h.Owner, fenceText(h.Fence))
}

func (r *releasing) read(ctx context.Context) (map[string]*redisstore.Holding, error) {
	all, err := r.g.Holdings(ctx, slices.Collect(maps.Keys(r.left))...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*redisstore.Holding, len(all))
	for i := range all {
		found[all[i].ID] = &all[i]
	}
	return found, nil
}

func (r *releasing) begin(ctx context.Context, name string, t *term, h *redisstore.Holding) {
	switch {
	case h == nil:
		r.over(name, endFree, "")
		return
	case h.Foreign:
		t.end.Text = "its key holds no string: another program uses it"
		r.over(name, endKept, "")
		return
	}
	t.Holding = *h
	t.end.Owner, t.end.Fence = h.Owner, h.Fence
	if r.asks && h.Fence > 0 {
		if err := r.g.AskBack(ctx, askerHere(), r.within, *h); err != nil {
			r.say(name, "cannot ask the owner to release it: "+oneLine(err))
		}
	}
}

func askerHere() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("leasectl-%s-%d", host, os.Getpid())
}

func (r *releasing) over(name, result, now string) {
	e := r.left[name].end
	e.Result, e.Now, e.TookMs = result, now, time.Since(r.began).Milliseconds()
	delete(r.left, name)
}

const pause = 20 * time.Millisecond

// await waits until every lease has lost its first owner, --within has passed, or ctx ends.
func (r *releasing) await(ctx context.Context) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for len(r.left) > 0 && time.Since(r.began) < r.within {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		found, err := r.read(ctx)
		if err != nil {
			return quiet(ctx, err)
		}
		for name, t := range r.left {
			r.advance(name, t, found[name])
		}
	}
	return nil
}

// advance compares a term with its lease in Redis, h, which is nil if nobody owns it.
func (r *releasing) advance(name string, t *term, h *redisstore.Holding) {
	switch {
	case h == nil:
		r.over(name, endGiven, "")
	case h.Owner != t.Owner || h.Fence != t.Fence:
		r.over(name, endGiven, h.Owner)
	default:
		t.renewed = t.renewed || h.Left > t.Left
		t.Left = h.Left
	}
}

func (t *term) advice(asked bool, within time.Duration) string {
	owner := plain.Name(t.Owner)
	why := owner + " was not asked"
	if asked {
		why = owner + " did not release it within " + within.String()
	}
	switch {
	case t.Left == redisstore.Forever:
		return why + ", and its key never expires: if no instance is " + owner + ", delete the key"
	case t.renewed:
		return why + ", and renews it: stop the instance " + owner
	default:
		return fmt.Sprintf("%s, and has not renewed it since: it expires in %s; if %s renews it again, stop that instance", why,
			leftText(leftMs(t.Left)), owner)
	}
}
