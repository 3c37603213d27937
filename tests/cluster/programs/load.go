// As load.py, by go-redis: a client of a cluster, and one of Sentinel.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	kind, prefix, nodes := os.Args[1], os.Args[2], os.Args[3:]
	var ended atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	var client redis.UniversalClient
	if kind == "sentinel" {
		client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "mymaster", SentinelAddrs: nodes,
		})
	} else {
		// Without it, this client asks who leads once a minute where a leader is gone.
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: nodes, ClusterStateReloadInterval: 2 * time.Second,
		})
	}
	for number := 0; !ended.Load(); number++ {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := client.Set(ctx, fmt.Sprintf("%s%d", prefix, number), number, 0).Err()
		cancel()
		if err == nil {
			fmt.Println(number)
		} else {
			fmt.Println("error", strings.Join(strings.Fields(err.Error()), " "))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(3 * time.Millisecond)
	}
}
