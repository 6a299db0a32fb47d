package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Doubts about a lease: anything except an owner that renews it.
const (
	doubtForeign  = "foreign"      // its key holds no string: no instance can acquire it
	doubtNoExpiry = "no-expiry"    // nobody can acquire it after its owner's death
	doubtNoFence  = "no-fence"     // another program took it, or deleted its fence
	doubtOddName  = "odd-name"     // no instance can have such a name, or such an owner
	doubtOverdue  = "overdue"      // at most half of the longest TTL is left: not renewed, or a shorter TTL
	doubtNoBeat   = "no-heartbeat" // others have heartbeats, its owner has none: dead, cut off, or a Keeper
)

// status is the result of the command status. The fields of its JSON are stable.
type status struct {
	Redis struct {
		Version       string    `json:"version"`
		RunID         string    `json:"runId"`
		Role          string    `json:"role"`
		Time          time.Time `json:"time"`
		ClockAheadMs  float64   `json:"clockAheadMs"`
		ClockWithinMs float64   `json:"clockWithinMs"`
	} `json:"redis"`
	Group struct {
		Epoch            string `json:"epoch"`
		EpochOver        bool   `json:"epochOver"`
		NoRecord         bool   `json:"noRecord"`
		Acknowledgements int    `json:"acknowledgements"`
		Acknowledging    *int   `json:"acknowledging,omitempty"` // nil: unknown
		QuarantineMs     int64  `json:"quarantineMs"`
		QuarantineLeftMs int64  `json:"quarantineLeftMs"`
	} `json:"group"`
	Instances []instance `json:"instances"`
	Leases    []held     `json:"leases"`
	Doubtful  int        `json:"doubtful"`

	group redisstore.Group
	alive map[string]bool // instances with a heartbeat
}

type instance struct {
	ID     string `json:"id"`
	TTLMs  int64  `json:"ttlMs"` // TTL of its heartbeat; 0: none; -1: it never expires
	Leases int    `json:"leases"`

	longest time.Duration // longest remaining TTL of its keys
}

type held struct {
	Lease  string   `json:"lease"`
	Owner  string   `json:"owner"`
	Fence  int64    `json:"fence"`
	TTLMs  int64    `json:"ttlMs"` // -1: it never expires
	Doubts []string `json:"doubts,omitempty"`
}

func newStatus(f *flags) *cobra.Command {
	var doubtful bool
	cmd := &cobra.Command{
		Use: "status [LEASE]...",

		SuggestFor: []string{"list", "ls", "show", "get", "why", "who", "owners"},

		Short: "Show owners, fences, TTLs, epoch, quarantine, instances and doubtful leases",
		Long: `Show which instance holds which lease. status changes nothing. It reads the leases page by page, so not all at one moment.
Exit code 1: a lease is doubtful, for one of these reasons:

  foreign       the key holds no string, so nobody can acquire the lease
  no-expiry     the key never expires, so nobody can acquire the lease after its owner is dead
  no-fence      another program wrote the lease key, or deleted the fence
  odd-name      no lease can have this name, or no instance the owner's name
  overdue       the lease has at most half the time left that others have: its owner does not renew it, or its TTL is shorter
  no-heartbeat  other instances have heartbeats, but the owner has none: it is dead or cut off, or a Keeper, which never has one`,
		RunE: f.with(func(cmd *cobra.Command, g *group, args []string) error {
			if err := g.checkNames(args); err != nil {
				return err
			}
			st, err := g.status(cmd.Context(), args)
			if err != nil {
				return err
			}
			if doubtful {
				st.Leases = slices.DeleteFunc(st.Leases, func(l held) bool { return len(l.Doubts) == 0 })
			}
			if f.json {
				err = writeJSON(cmd, st)
			} else {
				err = st.table(cmd.OutOrStdout())
			}
			if err == nil && st.Doubtful > 0 {
				err = errFindings
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&doubtful, "doubtful", false, "show only doubtful leases")
	return cmd
}

func (g *group) checkNames(names []string) error {
	for _, name := range names {
		if err := g.CheckLease(name); err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
	}
	return nil
}

// status reads the whole group. With names, it shows only those leases.
func (g *group) status(ctx context.Context, names []string) (*status, error) {
	st := &status{Instances: []instance{}, Leases: []held{}}
	var err error
	if st.group, err = g.Group(ctx); err != nil {
		return nil, err
	}
	beats, err := g.Beats(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = g.leaders
	}
	holdings, err := g.Holdings(ctx, names...)
	if err != nil {
		return nil, err
	}
	st.fill(g, beats, holdings)
	return st, nil
}

func (st *status) fill(g *group, beats []redisstore.Beat, holdings []redisstore.Holding) {
	now := &st.group
	st.Redis.Version, st.Redis.RunID, st.Redis.Role = now.Info.Fields["redis_version"], now.Info.Fields["run_id"], now.Info.Fields["role"]
	st.Redis.Time, st.Redis.ClockAheadMs, st.Redis.ClockWithinMs = now.Now.UTC(), ms(now.Ahead), ms(now.Within)
	st.Group.Epoch, st.Group.EpochOver, st.Group.NoRecord = now.Epoch, now.Over, now.Versions()
	st.Group.Acknowledgements = now.Acks
	if n, known := now.Acknowledging(); known && now.Acks > 0 {
		st.Group.Acknowledging = &n
	}
	st.Group.QuarantineMs, st.Group.QuarantineLeftMs = now.Agreed.Milliseconds(), now.Left.Milliseconds()

	at := map[string]int{}
	of := func(id string) *instance {
		i, known := at[id]
		if !known {
			i = len(st.Instances)
			at[id] = i
			st.Instances = append(st.Instances, instance{ID: id})
		}
		return &st.Instances[i]
	}
	st.alive = map[string]bool{}
	for _, b := range beats {
		in := of(b.ID)
		in.TTLMs, in.longest = leftMs(b.Left), b.Left-g.Options().BeatSlack
		st.alive[b.ID] = true
	}
	var longest time.Duration
	for _, h := range holdings {
		longest = max(longest, h.Left)
	}
	for _, h := range holdings {
		if h.Owner != "" {
			in := of(h.Owner)
			in.Leases++
			in.longest = max(in.longest, h.Left)
		}
		l := held{Lease: h.ID, Owner: h.Owner, Fence: h.Fence, TTLMs: leftMs(h.Left)}
		l.Doubts = g.doubts(&h, longest, len(st.alive) == 0 || st.alive[h.Owner])
		if len(l.Doubts) > 0 {
			st.Doubtful++
		}
		st.Leases = append(st.Leases, l)
	}
}

// doubts returns the doubts about a lease. longest is the longest remaining TTL of all leases. beats reports whether the owner has a
// heartbeat, or no instance has one.
func (g *group) doubts(h *redisstore.Holding, longest time.Duration, beats bool) (all []string) {
	add := func(doubt string, is bool) {
		if is {
			all = append(all, doubt)
		}
	}
	if h.Foreign {
		return []string{doubtForeign}
	}
	add(doubtOddName, g.CheckLease(h.ID) != nil || redisstore.CheckInstance(h.Owner) != nil)
	add(doubtNoExpiry, h.Left == redisstore.Forever)
	add(doubtNoFence, h.Fence == 0)
	add(doubtOverdue, h.Left != redisstore.Forever && h.Left <= longest/2)
	add(doubtNoBeat, !beats)
	return all
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func leftMs(d time.Duration) int64 {
	if d == redisstore.Forever {
		return -1
	}
	return max(1, d.Milliseconds())
}

func leftText(ms int64) string {
	switch ms {
	case -1:
		return "never expires"
	case 0:
		return "none"
	default:
		return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
	}
}

func quarantineText(g *redisstore.Group) string {
	switch {
	case g.Agreed == 0:
		return "none agreed on"
	case g.Left > 0:
		return fmt.Sprintf("%v, %v of it left: no free lease is granted", g.Agreed, g.Left.Round(100*time.Millisecond))
	default:
		return fmt.Sprintf("%v, over", g.Agreed)
	}
}

// majorityText describes the acknowledging replicas. Without a majority, an owner that Redis shows may own nothing.
func (st *status) majorityText() string {
	n := st.Group.Acknowledging
	switch {
	case n == nil:
		return ""
	case *n < st.Group.Acknowledgements:
		return fmt.Sprintf(", and %d do: nothing is granted or renewed, and the owners below may have lost their leases", *n)
	}
	return fmt.Sprintf(", and %d do", *n)
}

func (st *status) epochText() string {
	epoch := st.Group.Epoch
	switch {
	case st.Group.Epoch == "":
		return "none: no instance has used this Redis yet, or it has lost all its data"
	case st.Group.EpochOver:
		return epoch + ", ended: Redis was restarted, failed over, or a replica attached itself; the next request begins a new epoch"
	case st.Group.NoRecord:
		return epoch + ", begun by an older version: the next request of a newer version ends it"
	}
	return epoch
}

func (st *status) table(out io.Writer) error {
	none := func(text string) string {
		if text == "" {
			return "?"
		}
		return plain.Name(text)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "redis\t%s, %s, clock %+.1f ms from here (± %.1f)\n", none(st.Redis.Version), none(st.Redis.Role),
		st.Redis.ClockAheadMs, st.Redis.ClockWithinMs)
	fmt.Fprintf(w, "epoch\t%s\n", plain.Text(st.epochText()))
	fmt.Fprintf(w, "quarantine\t%s\n", quarantineText(&st.group))
	if st.Group.Acknowledgements > 0 {
		fmt.Fprintf(w, "replicas\t%d must acknowledge a write%s\n", st.Group.Acknowledgements, st.majorityText())
	}
	fmt.Fprintf(w, "leases\t%d, %d doubtful\n", st.leases(), st.Doubtful)
	err := w.Flush()
	if len(st.Instances) > 0 {
		fmt.Fprintln(w, "\nINSTANCE\tHEARTBEAT\tLEASES")
		for _, in := range st.Instances {
			fmt.Fprintf(w, "%s\t%s\t%d\n", plain.Name(in.ID), leftText(in.TTLMs), in.Leases)
		}
		err = errors.Join(err, w.Flush())
	}
	if len(st.Leases) > 0 {
		fmt.Fprintln(w, "\nLEASE\tOWNER\tFENCE\tTTL\tDOUBTS")
		for _, l := range st.Leases {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain.Name(l.Lease), plain.Name(l.Owner), fenceText(l.Fence), leftText(l.TTLMs),
				strings.Join(l.Doubts, " "))
		}
		err = errors.Join(err, w.Flush())
	}
	return err
}

// leases counts all leases, including those that are not shown.
func (st *status) leases() (n int) {
	for _, in := range st.Instances {
		n += in.Leases
	}
	for _, l := range st.Leases {
		if l.Owner == "" {
			n++
		}
	}
	return n
}

func fenceText(fence int64) string {
	if fence == 0 {
		return "none"
	}
	return strconv.FormatInt(fence, 10)
}
