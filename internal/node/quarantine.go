package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// quarantineLength takes the length out of what follows the word quarantine.
func quarantineLength(args []string) (length time.Duration, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, args, errors.New(`how long? As in "node quarantine 30s --redis redis://127.0.0.1:6379"`)
	}
	if length, err = time.ParseDuration(args[0]); err != nil {
		return 0, args, fmt.Errorf(`quarantine: %q is no duration such as "30s"`, args[0])
	}
	return length, args[1:], nil
}

// setQuarantine changes what the instances that share an epoch have agreed on.
func setQuarantine(s *settings, length time.Duration) (int, error) {
	client, err := s.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	var before time.Duration
	if s.system == systemElection {
		before, err = election.SetQuarantine(ctx, client, s.members(), length)
	} else {
		before, err = lease.SetQuarantine(ctx, client, s.lease(), length)
	}
	return sayQuarantine(before, length, err)
}

func setIntentQuarantine(s *intentSettings, length time.Duration) (int, error) {
	return withStore(s, func(ctx context.Context, st *store.Store) error {
		client, err := s.client()
		if err != nil {
			return err
		}
		defer client.Close()
		before, err := lease.SetQuarantine(ctx, client, st.Options().Leases, length)
		_, err = sayQuarantine(before, length, err)
		return err
	})
}

func sayQuarantine(before, length time.Duration, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(terminal(os.Stderr), "node: the quarantine was %v and is %v; what is free is granted again in %v, what is owned stays\n",
		before, length, max(before, length))
	if length > before {
		fmt.Fprintf(terminal(os.Stderr), "node: instances that need more than %v may be started in %v, when all others have heard of it\n",
			before, before)
	}
	return exitOK, nil
}
