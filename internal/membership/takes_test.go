package membership

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// A stopping worker leaves a dead worker's entries to others and keeps beating.
func TestNothingIsTakenWhileItStops(t *testing.T) {
	ctx := t.Context()
	client := redistest.Start(t).Client()
	st, err := store.New(client, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	id := uuid.Must(uuid.NewV7()).String()
	if _, _, err := st.Put(ctx, id, intent.Request{Resource: "a"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	bus := func(worker string) intentbus.Bus {
		b, err := intentbus.Open(st, worker)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		if err := b.Create(ctx); err != nil {
			t.Fatal(err)
		}
		return b
	}
	dead := bus("dead")
	if _, _, _, err := dead.Beat(ctx, "{}"); err != nil {
		t.Fatal(err)
	}
	if got, err := dead.Fetch(ctx, 1, time.Second); err != nil || len(got) != 1 {
		t.Fatalf("fetched %v, %v", got, err)
	}
	if err := dead.Leave(ctx, "dead"); err != nil {
		t.Fatal(err)
	}
	takes := false
	var got []intentbus.Entry
	m := &Member{
		Registry: Registry{
			Me: Incarnation{Name: "w"}, Instance: "w", Life: time.Minute, Bus: bus("w"), Logger: zap.NewNop(),
			Deliver: func(entries []intentbus.Entry) { got = append(got, entries...) },
		},
		Query: func(f func(*core.Machine)) bool {
			f(core.New(core.Config{}))
			return takes
		},
	}
	if err := m.Beat(ctx); err != nil || len(got) > 0 {
		t.Errorf("it took %v, %v", got, err)
	}
	takes = true
	if err := m.Beat(ctx); err != nil || len(got) != 1 || got[0].From != "dead" {
		t.Errorf("another takes %v, %v", got, err)
	}
	workers, err := m.Bus.Workers(ctx)
	if err != nil || len(workers) == 0 || workers[len(workers)-1].Instance != "w" {
		t.Errorf("the registry has %v, %v", workers, err)
	}
}
