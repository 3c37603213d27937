// redsync: one holder at a time.
package main

import (
	"os"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("PORT")})
	locks := redsync.New(goredis.NewPool(client))
	first, second := locks.NewMutex("thing"), locks.NewMutex("thing", redsync.WithTries(2))
	if err := first.Lock(); err != nil {
		panic(err)
	}
	if second.Lock() == nil {
		panic("two hold it")
	}
	if ok, err := first.Extend(); !ok {
		panic(err)
	}
	if ok, err := first.Unlock(); !ok {
		panic(err)
	}
	if err := second.Lock(); err != nil {
		panic(err)
	}
}
