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
	"github.com/leasestorm/leasestorm/lease/admin"
)

func bootstrap(s *settings, fleet admin.Fleet) (int, error) {
	if _, err := operate(s, func(ctx context.Context, client redis.UniversalClient) (none struct{}, err error) {
		return none, admin.Bootstrap(ctx, client, fleet)
	}); err != nil {
		return 0, err
	}
	fmt.Fprintf(terminal(os.Stderr), "node: declared the first deployment; Redis grants leases now, which waiting nodes notice within "+
		"a third of a TTL; the quarantine is %v, so no node may have a longer TTL (--ttl)\n", s.leases.TTL)
	return exitOK, nil
}

func quarantineLength(args []string) (length time.Duration, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, args, errors.New(`how long? As in "node quarantine 30s --redis redis://127.0.0.1:6379"`)
	}
	if length, err = time.ParseDuration(args[0]); err != nil {
		return 0, args, fmt.Errorf(`quarantine: %q is no duration such as "30s"`, args[0])
	}
	return length, args[1:], nil
}

func (s *settings) fleet() admin.Fleet {
	if s.system == systemElection {
		return s.members()
	}
	return lease.ManagerConfig{Config: s.lease()}
}

const commandWithin = 10 * time.Second

// operate runs an operator's command on the fleet's Redis.
func operate[T any](s *settings, command func(context.Context, redis.UniversalClient) (T, error)) (T, error) {
	client, err := s.Universal("node", terminal(os.Stderr))
	if err != nil {
		var none T
		return none, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	return command(ctx, client)
}

func setQuarantine(s *settings, fleet admin.Fleet, length time.Duration) (int, error) {
	before, err := operate(s, func(ctx context.Context, client redis.UniversalClient) (time.Duration, error) {
		return admin.SetQuarantine(ctx, client, fleet, length)
	})
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(terminal(os.Stderr), "node: the quarantine was %v and is now %v; owners keep their leases, and free leases are granted "+
		"again in %v: restart no node before that\n", before, length, max(before, length))
	return exitOK, nil
}

func replicasCount(args []string) (n int, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, args, errors.New(`how many? As in "node replicas 2 --redis redis://127.0.0.1:6379"`)
	}
	if n, err = strconv.Atoi(args[0]); err != nil || n < 0 || n > lease.ReplicasMax {
		return 0, args, fmt.Errorf("replicas: %q is no number from 0 to %d", args[0], lease.ReplicasMax)
	}
	return n, args[1:], nil
}

func setReplicas(s *settings, fleet admin.Fleet) (int, error) {
	var now int
	before, err := operate(s, func(ctx context.Context, client redis.UniversalClient) (before int, err error) {
		before, now, err = admin.SetReplicas(ctx, client, fleet)
		return before, err
	})
	if err != nil {
		return 0, err
	}
	if before == now {
		fmt.Fprintf(terminal(os.Stderr), "node: nothing was changed: a write already needs only %d acknowledgements of replicas; nodes "+
			"with a higher --replicas raise this number by themselves\n", before)
		return exitOK, nil
	}
	fmt.Fprintf(terminal(os.Stderr), "node: a write needed %d acknowledgements of replicas, and now needs %d; owners keep their leases, and "+
		"free leases are granted again after one quarantine; a node that was not restarted with --replicas %d raises the number again\n",
		before, now, s.leases.Replicas)
	return exitOK, nil
}
