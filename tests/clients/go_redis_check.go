// go-redis: pipelines, transactions that watch, scripts, lists that are waited for, messages.
package main

import (
	"context"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func must(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("PORT")})
	must(client.Set(ctx, "a", "one", time.Minute).Err() == nil, "set")
	must(client.Get(ctx, "a").Val() == "one", "get")
	must(client.Get(ctx, "nothing").Err() == redis.Nil, "nil")
	commands, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.IncrBy(ctx, "n", 5)
		return pipe.Incr(ctx, "n").Err()
	})
	must(err == nil && commands[1].(*redis.IntCmd).Val() == 6, "transaction")
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		must(client.Incr(ctx, "n").Err() == nil, "incr")
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "n", 0, 0).Err()
		})
		return err
	}, "n")
	must(err == redis.TxFailedErr, "watch")
	raise := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	number, err := raise.Run(ctx, client, []string{"n"}, 3).Int()
	must(err == nil && number == 10, "script")
	messages := client.Subscribe(ctx, "news")
	_, err = messages.Receive(ctx)
	must(err == nil && client.Publish(ctx, "news", "hello").Val() == 1, "publish")
	must((<-messages.Channel()).Payload == "hello", "message")
	go func() { client.RPush(ctx, "list", "x") }()
	must(client.BLMove(ctx, "list", "done", "left", "right", 5*time.Second).Val() == "x", "blmove")
	keys, _, err := client.Scan(ctx, 0, "*", 100).Result()
	must(err == nil && len(keys) == 3, "scan")
}
