// rueidis: pipelining, scripts, and the cache in the client (CLIENT TRACKING).
package main

import (
	"context"
	"os"
	"time"

	"github.com/redis/rueidis"
)

func must(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func main() {
	ctx := context.Background()
	address := []string{"127.0.0.1:" + os.Getenv("PORT")}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: address})
	if err != nil {
		panic(err)
	}
	must(client.Do(ctx, client.B().Set().Key("a").Value("one").Build()).Error() == nil, "set")
	cached := func() rueidis.RedisResult {
		return client.DoCache(ctx, client.B().Get().Key("a").Cache(), time.Minute)
	}
	text, err := cached().ToString()
	must(err == nil && text == "one" && cached().IsCacheHit(), "cache")
	raise := rueidis.NewLuaScript("return redis.call('set', KEYS[1], ARGV[1])")
	must(raise.Exec(ctx, client, []string{"a"}, []string{"two"}).Error() == nil, "script")
	for begun := time.Now(); text != "two"; text, err = cached().ToString() {
		must(err == nil && time.Since(begun) < 5*time.Second, "invalidation")
	}
	client.Close()
}
