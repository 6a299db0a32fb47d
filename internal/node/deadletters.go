package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent/store"
)

func withStore(s *intentSettings, run func(context.Context, *store.Store) error) (int, error) {
	client, err := s.Client("node", terminal(os.Stderr))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	st, err := store.New(client, s.storeOptions())
	if err != nil {
		return 0, err
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	return exitOK, run(ctx, st)
}

type letter struct {
	ID      string            `json:"id"`
	At      time.Time         `json:"at"`
	Why     string            `json:"why"`
	Tries   int               `json:"tries"`
	Session string            `json:"session,omitempty"`
	Fields  map[string]string `json:"fields"`
}

const lettersPage = 100

func listDeadLetters(s *intentSettings) (int, error) {
	return withStore(s, func(ctx context.Context, st *store.Store) error {
		out := json.NewEncoder(terminal(os.Stdout))
		for cursor := ""; ; {
			page, err := st.DeadLetters(ctx, cursor, lettersPage)
			if err != nil {
				return err
			}
			for _, l := range page {
				if err := out.Encode(letter{l.ID, l.At, l.Why, l.Tries, l.Session, l.Fields}); err != nil {
					return err
				}
				cursor = l.ID
			}
			if len(page) < lettersPage {
				return nil
			}
		}
	})
}

func requeueDeadLetter(s *intentSettings, id string) (int, error) {
	return withStore(s, func(ctx context.Context, st *store.Store) error {
		session, err := st.Requeue(ctx, id, 24*time.Hour)
		if err == nil {
			fmt.Fprintf(terminal(os.Stderr), "node: session %s is on the bus again\n", session)
		}
		return err
	})
}

func dropDeadLetter(s *intentSettings, id string) (int, error) {
	return withStore(s, func(ctx context.Context, st *store.Store) error {
		found, err := st.Drop(ctx, id)
		if err == nil && !found {
			err = fmt.Errorf("there is no dead letter %q; node intents dead-letters list shows them", id)
		}
		return err
	})
}
