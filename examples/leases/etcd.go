//go:build ignore

// Command etcd is a lease adapter (docs/lease-protocol.md) of go.etcd.io/etcd/client/v3/concurrency. Its session renews by itself.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	ttl, _ := time.ParseDuration(os.Getenv("LEASESTORM_TTL_MS") + "ms")
	client, _ := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv("LEASESTORM_PROXY_ETCD")}})
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		log.Fatal(err)
	}
	context.AfterFunc(session.Ctx(), func() { log.Fatal("the session is over, and all its locks") })
	locks, reply := map[any]*concurrency.Mutex{}, &clientv3.TxnResponse{}
	var q struct{ ID, Op, Key any }
	for in := json.NewDecoder(os.Stdin); in.Decode(&q) == nil; {
		ctx, cancel := context.WithTimeout(context.Background(), ttl/4)
		switch q.Op {
		case "acquire":
			locks[q.Key] = concurrency.NewMutex(session, q.Key.(string))
			err = locks[q.Key].TryLock(ctx)
		case "renew":
			err = nil // the session renews
		case "check":
			if reply, err = client.Txn(ctx).If(locks[q.Key].IsOwner()).Commit(); err == nil && !reply.Succeeded {
				err = concurrency.ErrLockReleased
			}
		case "release":
			err = locks[q.Key].Unlock(ctx)
		}
		cancel()
		fmt.Printf("{\"id\":%v,\"ok\":%t,\"error\":%q}\n", q.ID, err == nil, fmt.Sprint(err))
	}
}
