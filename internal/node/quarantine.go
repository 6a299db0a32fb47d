package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// quarantineLength reads the length that follows the word quarantine.
func quarantineLength(args []string) (length time.Duration, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, args, errors.New(`how long? As in "node quarantine 30s --redis redis://127.0.0.1:6379"`)
	}
	if length, err = time.ParseDuration(args[0]); err != nil {
		return 0, args, fmt.Errorf(`quarantine: %q is no duration such as "30s"`, args[0])
	}
	return length, args[1:], nil
}

func (s *settings) operate(command func(context.Context, redis.UniversalClient) error) error {
	client, err := s.Universal("node", terminal(os.Stderr))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	return command(ctx, client)
}

// setQuarantine changes the quarantine of the instances that share an epoch.
func setQuarantine(s *settings, length time.Duration) (int, error) {
	var before time.Duration
	err := s.operate(func(ctx context.Context, client redis.UniversalClient) (err error) {
		if s.system == systemElection {
			before, err = election.SetQuarantine(ctx, client, s.members(), length)
		} else {
			before, err = lease.SetQuarantine(ctx, client, s.lease(), length)
		}
		return err
	})
	return sayQuarantine(before, length, err)
}

// replicasCount reads the number that follows the word replicas.
func replicasCount(args []string) (n int, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, args, errors.New(`how many? As in "node replicas 2 --redis redis://127.0.0.1:6379"`)
	}
	if n, err = strconv.Atoi(args[0]); err != nil || n < 0 || n > lease.ReplicasMax {
		return 0, args, fmt.Errorf("replicas: %q is no number from 0 to %d", args[0], lease.ReplicasMax)
	}
	return n, args[1:], nil
}

// setReplicas lowers how many replicas must acknowledge a write.
func setReplicas(s *settings, n int) (int, error) {
	s.replicas = n
	var before, now int
	if err := s.operate(func(ctx context.Context, client redis.UniversalClient) (err error) {
		if s.system == systemElection {
			before, now, err = election.SetReplicas(ctx, client, s.members())
		} else {
			before, now, err = lease.SetReplicas(ctx, client, s.lease())
		}
		return err
	}); err != nil {
		return 0, err
	}
	sayReplicas(before, now, n)
	return exitOK, nil
}

// setIntentReplicas is setReplicas for the leases of intents.
func setIntentReplicas(s *intentSettings, n int) (int, error) {
	s.replicas = n
	return withStore(s, func(ctx context.Context, client *redis.Client, st *store.Store) error {
		before, now, err := lease.SetReplicas(ctx, client, st.Options().Leases)
		if err != nil {
			return err
		}
		sayReplicas(before, now, n)
		return nil
	})
}

func sayReplicas(before, now, n int) {
	if before == now {
		fmt.Fprintf(terminal(os.Stderr), "node: nothing was changed: what counts has to be acknowledged by %d of the replicas already; "+
			"nodes with a higher --replicas raise that by themselves\n", before)
		return
	}
	fmt.Fprintf(terminal(os.Stderr), "node: what counts had to be acknowledged by %d of the replicas, and now by %d; what is free is granted "+
		"again after one quarantine, what is owned stays; a node that was not restarted with --replicas %d raises it again\n", before, now, n)
}

func setIntentQuarantine(s *intentSettings, length time.Duration) (int, error) {
	return withStore(s, func(ctx context.Context, client *redis.Client, st *store.Store) error {
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
