package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// epoch is how long keys are used, so that few requests of unknown outcome are of one key.
const epoch = 10 * time.Second

// now is the time that all programs of a test share.
func now() int64 {
	const monotonic = 1
	var at syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

// shared is what all clients have.
type shared struct {
	options
	begun      int64
	ends       atomic.Bool
	lastClient atomic.Int64
	lastValue  atomic.Int64
	lock       sync.Mutex // of the following
	out        *bufio.Writer
	seen       map[string]bool
}

func (s *shared) tell(told line) error {
	text, err := json.Marshal(told)
	if err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.seen[told.Key] = true
	_, err = s.out.Write(append(text, '\n'))
	return err
}

func (s *shared) value() string { return strconv.FormatInt(s.lastValue.Add(1), 36) + ";" }

// client asks one node at a time, another one after each error.
//
// Of eight, two pop, two only read (so no write at a leader that nobody follows holds them up), and
// two know of clusters: they are told where the leader is, and go there.
type client struct {
	*shared
	number           int
	name             int64
	random           *rand.Rand
	redis, memcached *node
	moved            string
	failed           error // of the history: nothing of it counts then
}

func (s *shared) client(number int) *client {
	source := rand.NewSource(s.seed ^ int64(number)<<32)
	return &client{
		shared: s, number: number, name: s.lastClient.Add(1), random: rand.New(source),
	}
}

func (c *client) knowsClusters() bool { return c.number%4 == 3 }

func (c *client) any(addresses []string) string {
	return addresses[c.random.Intn(len(addresses))]
}

// connect finds nodes to ask; false: not yet.
func (c *client) connect() bool {
	var err error
	if c.redis == nil {
		address := c.any(c.options.redis)
		if c.moved != "" {
			address, c.moved = c.moved, ""
		}
		if c.redis, err = dial(address); err == nil && c.knowsClusters() {
			_, err = c.redis.redis([]string{"READONLY"})
		}
	}
	if err == nil && c.memcached == nil {
		c.memcached, err = dial(c.any(c.options.memcached))
	}
	if err != nil {
		c.leave()
		time.Sleep(20 * time.Millisecond)
	}
	return err == nil
}

// leave ends the connections.
func (c *client) leave() {
	for _, one := range []**node{&c.redis, &c.memcached} {
		if *one != nil {
			(*one).Close()
		}
		*one = nil
	}
}

// call makes a request and tells of it; false: it was not answered.
func (c *client) call(op, key string, in []string, ask func() (string, error)) (string, bool) {
	told := line{Client: c.name, Op: op, Key: key, In: in, From: now()}
	out, err := ask()
	to := now()
	switch {
	case err == nil:
		told.Out, told.To = &out, &to
	case isNotDone(err):
		told.To, told.Refused, told.Error = &to, true, err.Error()
		if words := strings.Fields(err.Error()); words[0] == "MOVED" && len(words) == 3 {
			c.moved = words[2]
		}
	default:
		told.Error = err.Error()
		if errors.As(err, new(refusal)) {
			told.Error = "reply: " + told.Error
		}
		c.name = c.lastClient.Add(1)
	}
	if err := c.tell(told); err != nil {
		c.failed = err
	}
	if err != nil {
		c.leave()
	}
	return out, err == nil
}

// by makes a request of Redis, or several at once of which the last one counts.
func (c *client) by(op, key string, in []string, requests ...[]string) (string, bool) {
	return c.call(op, key, in, func() (string, error) { return c.redis.redis(requests...) })
}

// store makes a request of memcached that has a value: set or cas.
func (c *client) store(op, key string, in []string, request, number string) {
	value := in[len(in)-1]
	c.call(op, key, in, func() (string, error) {
		return c.memcached.memcached(
			fmt.Sprintf("%s %s 0 0 %d%s\r\n%s", request, key, len(value), number, value))
	})
}

// once does one thing to a key. Kinds of keys: s strings, n numbers, p pairs, l lists of which
// nothing is taken, q queues.
func (c *client) once() {
	at := (now() - c.begun) / int64(epoch)
	name := func(kind string, count int) string {
		return fmt.Sprintf("%s%d-%d", kind, at, c.random.Intn(count))
	}
	writes := c.number%4 != 2
	switch dice := c.random.Intn(100); {
	case dice < 40:
		c.text(name("s", 3), writes)
	case dice < 55:
		c.count(name("n", 2), writes)
	case dice < 70:
		c.pair(name("p", 2), writes)
	case dice < 82:
		c.list(name("l", 1), writes)
	default:
		c.queue(name("q", 1), writes)
	}
}

const compareAndSet = `if redis.call('GET', KEYS[1]) == ARGV[1] then
	redis.call('SET', KEYS[1], ARGV[2])
	return 1
end
return 0`

func (c *client) text(key string, writes bool) {
	ask, value := c.random.Intn(16), c.value()
	one := []string{value}
	switch {
	case !writes && ask%2 == 0, ask < 3:
		c.by("get", key, nil, []string{"GET", key})
	case ask < 4, !writes:
		c.gets(key)
	case ask < 5:
		c.by("set", key, one, []string{"SET", key, value})
	case ask < 6:
		c.store("store", key, one, "set", "")
	case ask < 8:
		c.by("append", key, one, []string{"APPEND", key, value})
	case ask < 9:
		c.by("del", key, nil, []string{"DEL", key})
	case ask < 11:
		c.by("setnx", key, one, []string{"SETNX", key, value})
	case ask < 13:
		if held, number, ok := c.gets(key); ok && held != "" {
			c.store("cas", key, []string{held, value}, "cas", " "+number)
		}
	case ask < 14:
		watch, get := []string{"WATCH", key}, []string{"GET", key}
		if held, ok := c.by("get", key, nil, watch, get); ok {
			set := []string{"SET", key, value}
			c.call("watch", key, []string{held, value}, func() (string, error) {
				told, err := c.redis.redis([]string{"MULTI"}, set, []string{"EXEC"})
				if err == nil && told == "" {
					told = aborted
				}
				return told, err
			})
		}
	default:
		if held, ok := c.by("get", key, nil, []string{"GET", key}); ok {
			script := []string{"EVAL", compareAndSet, "1", key, held, value}
			c.by("eval", key, []string{held, value}, script)
		}
	}
}

func (c *client) gets(key string) (held, number string, ok bool) {
	held, ok = c.call("gets", key, nil, func() (held string, err error) {
		held, number, err = c.memcached.gets(key)
		return held, err
	})
	return held, number, ok
}

func (c *client) count(key string, writes bool) {
	switch ask := c.random.Intn(4); {
	case !writes || ask == 0:
		c.by("get", key, nil, []string{"GET", key})
	case ask == 1:
		c.call("increase", key, nil, func() (string, error) {
			return c.memcached.memcached("incr " + key + " 1")
		})
	default:
		c.by("incr", key, nil, []string{"INCR", key})
	}
}

func (c *client) pair(key string, writes bool) {
	one, other, value := key+"a", key+"b", c.value()
	multi, exec := []string{"MULTI"}, []string{"EXEC"}
	switch ask := c.random.Intn(4); {
	case writes && ask < 2:
		set := [][]string{{"SET", one, value}, {"SET", other, value}}
		c.by("pair-set", key, []string{value}, multi, set[0], set[1], exec)
	case ask%2 == 0:
		get := [][]string{{"GET", one}, {"GET", other}}
		c.by("pair-get", key, nil, multi, get[0], get[1], exec)
	default:
		c.by("mget", key, nil, []string{"MGET", one, other})
	}
}

func (c *client) list(key string, writes bool) {
	if writes && c.random.Intn(2) == 0 {
		value := c.value()
		c.by("rpush", key, []string{value}, []string{"RPUSH", key, value})
		return
	}
	c.by("lrange", key, nil, []string{"LRANGE", key, "0", "-1"})
}

func (c *client) queue(key string, writes bool) {
	switch value := c.value(); {
	case c.number%4 == 0:
		c.call("blpop", key, nil, func() (string, error) {
			told, err := c.redis.redis([]string{"BLPOP", key, "0.5"})
			return strings.TrimPrefix(told, key+" "), err
		})
	case writes:
		c.by("rpush", key, []string{value}, []string{"RPUSH", key, value})
	default:
		c.list(key, false)
	}
}

// last reads a key at the end.
func (c *client) last(key string) bool {
	switch {
	case !c.connect():
		return false
	case key[0] == 'p':
		_, ok := c.by("mget", key, nil, []string{"MGET", key + "a", key + "b"})
		return ok
	case key[0] == 'l' || key[0] == 'q':
		_, ok := c.by("lrange", key, nil, []string{"LRANGE", key, "0", "-1"})
		return ok
	}
	_, ok := c.by("get", key, nil, []string{"GET", key})
	return ok
}

func load(options options) error {
	shared := &shared{
		options: options, begun: now(), out: bufio.NewWriter(os.Stdout), seen: map[string]bool{},
	}
	go func() {
		io.Copy(io.Discard, os.Stdin) // Whether it ends or fails, there is nobody any more.
		shared.ends.Store(true)
	}()
	failed := make(chan error)
	for number := range options.clients {
		go func() {
			client := shared.client(number)
			for !shared.ends.Load() && client.failed == nil {
				if client.connect() {
					client.once()
				}
				time.Sleep(time.Duration(client.random.Intn(16_000)) * time.Microsecond)
			}
			client.leave()
			failed <- client.failed
		}()
	}
	for range options.clients {
		if err := <-failed; err != nil {
			return err
		}
	}
	// What nobody has asked for since may be lost.
	client, deadline := shared.client(options.clients), now()+int64(time.Minute)
	keys := make([]string, 0, len(shared.seen))
	for key := range shared.seen {
		keys = append(keys, key)
	}
	for _, key := range keys {
		for !client.last(key) {
			if now() > deadline {
				return errors.New(key + " is not answered at the end")
			}
		}
	}
	return shared.out.Flush()
}

// fill sets long values for a time.
func fill(options options) {
	var done, failed atomic.Int64
	var clients sync.WaitGroup
	end := time.Now().Add(options.seconds)
	for number := range options.clients {
		clients.Add(1)
		go func() {
			defer clients.Done()
			client := (&shared{options: options}).client(number)
			value := strings.Repeat("v", options.bytes)
			for time.Now().Before(end) {
				if !client.connect() {
					continue
				}
				key := fmt.Sprintf("fill-%d", client.random.Intn(10_000))
				if _, err := client.redis.redis([]string{"SET", key, value}); err != nil {
					failed.Add(1)
					client.leave()
					continue
				}
				done.Add(1)
			}
			client.leave()
		}()
	}
	clients.Wait()
	rate := float64(done.Load()) / options.seconds.Seconds()
	fmt.Printf(`{"puts_per_second": %.0f, "failed": %d}`+"\n", rate, failed.Load())
}
