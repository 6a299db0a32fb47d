package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// change is one change that watch shows. The fields of its JSON are stable.
type change struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"`
	Lease  string    `json:"lease,omitempty"`
	Owner  string    `json:"owner,omitempty"`
	Fence  int64     `json:"fence,omitempty"`
	Before string    `json:"before,omitempty"` // previous owner, epoch, or doubts
	Text   string    `json:"text,omitempty"`
}

const (
	changeBegin    = "watching"
	changeAcquired = "acquired" // the lease was free, another instance's, or the same owner's under another fence
	changeFree     = "free"
	changeDoubts   = "doubts"
	changeJoined   = "joined"
	changeLeft     = "left"
	changeEpoch    = "epoch"
	changeQuiet    = "quarantine" // a quarantine begins or ends
	changeAway     = "redis"      // Redis becomes unreadable, or readable again
)

func newWatch(f *flags) *cobra.Command {
	every := time.Second
	cmd := &cobra.Command{
		Use:   "watch [LEASE]...",
		Short: "Show what changes, until Ctrl-C or until the reader of a pipe has gone",
		Long: `Read the same data as status once per --every, and show each change. watch does not see a change that is undone before the next
reading. It changes nothing itself. If a reading fails, watch says so and goes on; if the first reading fails, it ends with exit code
2. Ctrl-C, or a pipe that closes, ends it with exit code 0.`,
		RunE: f.with(func(cmd *cobra.Command, g *group, args []string) error {
			if every < 50*time.Millisecond {
				return fmt.Errorf("%w: --every %v: at least 50ms", errUsage, every)
			}
			if err := g.checkNames(args); err != nil {
				return err
			}
			return watch(cmd.Context(), f.show(cmd.OutOrStdout()), every, func(ctx context.Context) (*status, error) {
				return g.status(ctx, args)
			})
		}),
	}
	cmd.Flags().DurationVar(&every, "every", every, "time between two readings")
	return cmd
}

func (f *flags) show(out io.Writer) func(change) error {
	if f.json {
		enc := json.NewEncoder(out)
		return func(c change) error { return enc.Encode(c) }
	}
	return func(c change) error {
		_, err := fmt.Fprintln(out, c.line())
		return err
	}
}

func (c *change) line() string {
	parts := []string{c.Time.Local().Format("15:04:05.000"), c.Change}
	if c.Lease != "" {
		parts = append(parts, plain.Name(c.Lease))
	}
	if c.Owner != "" {
		parts = append(parts, "by "+plain.Name(c.Owner))
	}
	if c.Fence != 0 {
		parts = append(parts, fmt.Sprintf("fence %d", c.Fence))
	}
	if c.Before != "" {
		parts = append(parts, "(was "+plain.Name(c.Before)+")")
	}
	if c.Text != "" {
		parts = append(parts, plain.Text(c.Text))
	}
	return strings.Join(parts, "  ")
}

func watch(ctx context.Context, show func(change) error, every time.Duration, read func(context.Context) (*status, error)) error {
	before, err := read(ctx)
	if err != nil {
		return quiet(ctx, err)
	}
	text := fmt.Sprintf("%d leases, %d doubtful, %d instances, epoch %s", before.leases(), before.Doubtful, len(before.Instances),
		before.epochText())
	if err := show(change{Time: time.Now(), Change: changeBegin, Text: text}); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for w := (watched{show: show, before: before}); !abandoned(os.Stdout); {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := read(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := w.see(now, err); err != nil {
			return err
		}
	}
	return nil
}

// watched is the last state that watch could read.
type watched struct {
	show   func(change) error
	before *status
	away   bool // Redis could not be read since
}

// see shows what a reading changed, or that Redis could not be read.
func (w *watched) see(now *status, failed error) error {
	var changes []change
	switch {
	case failed != nil && !w.away:
		changes = []change{{Change: changeAway, Text: oneLine(failed)}}
	case failed == nil:
		if w.away {
			changes = []change{{Change: changeAway, Text: "can be read again"}}
		}
		changes = append(changes, differences(w.before, now)...)
		w.before = now
	}
	w.away = failed != nil
	for _, c := range changes {
		c.Time = time.Now()
		if err := w.show(c); err != nil {
			return err
		}
	}
	return nil
}

// differences returns the changes between two reads, the group first.
func differences(before, now *status) (all []change) {
	if before.Group.Epoch != now.Group.Epoch || before.Group.EpochOver != now.Group.EpochOver {
		all = append(all, change{Change: changeEpoch, Text: now.epochText(), Before: before.Group.Epoch})
	}
	if (before.Group.QuarantineLeftMs > 0) != (now.Group.QuarantineLeftMs > 0) || before.Group.QuarantineMs != now.Group.QuarantineMs {
		all = append(all, change{Change: changeQuiet, Text: quarantineText(&now.group)})
	}
	was, is := beating(before), beating(now)
	for _, id := range slices.Sorted(maps.Keys(is)) {
		if !was[id] {
			all = append(all, change{Change: changeJoined, Owner: id})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		if !is[id] {
			all = append(all, change{Change: changeLeft, Owner: id})
		}
	}
	return append(all, moved(before, now)...)
}

func beating(st *status) map[string]bool {
	all := map[string]bool{}
	for _, in := range st.Instances {
		if in.TTLMs != 0 {
			all[in.ID] = true
		}
	}
	return all
}

func moved(before, now *status) (all []change) {
	had := make(map[string]*held, len(before.Leases))
	for i := range before.Leases {
		had[before.Leases[i].Lease] = &before.Leases[i]
	}
	for i := range now.Leases {
		l := &now.Leases[i]
		old, known := had[l.Lease]
		delete(had, l.Lease)
		switch {
		case !known:
			old = &held{}
			fallthrough
		case old.Owner != l.Owner || old.Fence != l.Fence:
			all = append(all, change{Change: changeAcquired, Lease: l.Lease, Owner: l.Owner, Fence: l.Fence, Before: old.Owner})
		}
		if !slices.Equal(old.Doubts, l.Doubts) {
			all = append(all, change{Change: changeDoubts, Lease: l.Lease, Owner: l.Owner, Text: doubtsText(l.Doubts),
				Before: strings.Join(old.Doubts, " ")})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(had)) {
		all = append(all, change{Change: changeFree, Lease: id, Before: had[id].Owner})
	}
	return all
}

func doubtsText(doubts []string) string {
	if len(doubts) == 0 {
		return "none any more"
	}
	return strings.Join(doubts, " ")
}
