// Stock requests of Redis and memcached to all nodes of a cluster, and whether what the clients
// were told is linearizable, for tests/cluster/run --clients redis.
//
//	commands load  --redis ADDR,.. --memcached ADDR,.. [--clients 8] [--seed 0]
//	commands fill  --redis ADDR,.. --memcached ADDR,.. [--clients 16] [--seconds 5] [--bytes 8000]
//	commands judge FILE PICTURE
//
// `load` asks until its standard input ends; then it reads each key once more. Each request is a
// line of JSON (the type line). `judge` checks them key by key with the models of model.go. `fill`
// sets long values, and prints how many a second.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	var err error
	words := os.Args[1:]
	switch {
	case len(words) > 0 && words[0] == "load":
		options := optionsOf(words[1:])
		err = load(options)
	case len(words) > 0 && words[0] == "fill":
		options := optionsOf(words[1:])
		fill(options)
	case len(words) == 3 && words[0] == "judge":
		err = judge(words[1], words[2])
	default:
		fmt.Fprintln(os.Stderr, "write `commands load`, `fill` or `judge FILE PICTURE`")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "commands:", err)
		os.Exit(1)
	}
}

type options struct {
	redis, memcached []string
	clients, bytes   int
	seed             int64
	seconds          time.Duration
}

func optionsOf(words []string) options {
	flags := flag.NewFlagSet("commands", flag.ExitOnError)
	redis := flags.String("redis", "", "addresses of all nodes")
	memcached := flags.String("memcached", "", "the same")
	clients := flags.Int("clients", 8, "at a time")
	seed := flags.Int64("seed", 0, "of what is asked for")
	seconds := flags.Int("seconds", 5, "of fill")
	bytes := flags.Int("bytes", 8000, "of a value of fill")
	flags.Parse(words)
	return options{
		strings.Split(*redis, ","), strings.Split(*memcached, ","), *clients, *bytes, *seed,
		time.Duration(*seconds) * time.Second,
	}
}
