package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// line is a request. One without an end is of unknown outcome: it may be done at any time after it
// was made, or never. One that was refused is not done.
type line struct {
	Client  int64    `json:"client"`
	Op      string   `json:"op"`
	Key     string   `json:"key"`
	In      []string `json:"in,omitempty"`
	Out     *string  `json:"out"`
	From    int64    `json:"from"` // nanoseconds of the system's monotonic clock
	To      *int64   `json:"to"`
	Refused bool     `json:"refused,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// reads are the requests that change nothing.
var reads = map[string]bool{
	"get": true, "gets": true, "pair-get": true, "mget": true, "lrange": true,
}

// aborted is what `watch` is told when nothing was done: its key was changed, and maybe back.
const aborted = "aborted"

// step is what a request does to its key, and what its client is told.
//
// What a key holds is a string, empty if it is not there: a value; or the elements of a list, with
// a space between them; or the one value that both keys of a pair must hold, as nothing writes one
// of them alone. All values that are set differ, so that one that is there is that version.
func step(op string, in []string, held string) (told, holds string) {
	yes := func(done bool, yes, no, holds string) (string, string) {
		if done {
			return yes, holds
		}
		return no, held
	}
	switch op {
	case "get", "gets", "lrange":
		return held, held
	case "set":
		return "OK", in[0]
	case "store": // memcached's set
		return "STORED", in[0]
	case "setnx":
		return yes(held == "", "1", "0", in[0])
	case "append":
		return strconv.Itoa(len(held + in[0])), held + in[0]
	case "del":
		return yes(held != "", "1", "0", "")
	case "eval": // compare and set
		return yes(held != "" && held == in[0], "1", "0", in[1])
	case "cas":
		if held == "" {
			return "NOT_FOUND", held
		}
		return yes(held == in[0], "STORED", "EXISTS", in[1])
	case "watch": // WATCH and GET were before; MULTI, SET, EXEC
		return yes(held == in[0], "OK", aborted, in[1])
	case "incr":
		number, _ := strconv.Atoi(held) // 0 where there is none.
		sum := strconv.Itoa(number + 1)
		return sum, sum
	case "increase": // memcached's incr
		if held == "" {
			return "NOT_FOUND", held
		}
		return step("incr", in, held)
	case "pair-set":
		return "OK OK", in[0]
	case "pair-get", "mget":
		return held + " " + held, held
	case "rpush":
		list := strings.TrimPrefix(held+" "+in[0], " ")
		return strconv.Itoa(len(strings.Fields(list))), list
	case "blpop": // nothing: its time was over, and there was nothing
		first, rest, _ := strings.Cut(held, " ")
		return first, rest
	}
	panic("there is no " + op)
}

// key is the model of one key, or of a pair of keys.
var key = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		call, told := in.(line), out.(*string)
		expected, holds := step(call.Op, call.In, state.(string))
		if told != nil && *told == aborted {
			return true, state
		}
		return told == nil || *told == expected, holds
	},
	DescribeOperation: func(in, out interface{}) string {
		call, told := in.(line), "?"
		if call.Out != nil {
			told = *call.Out
		}
		return fmt.Sprintf("%s %s: %s", call.Op, strings.Join(call.In, " "), told)
	},
}

func histories(path string) (map[string][]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	keys := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var told line
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			return nil, err
		}
		end := int64(math.MaxInt64)
		if told.To != nil {
			end = *told.To
		} else if reads[told.Op] {
			continue
		}
		if !told.Refused {
			keys[told.Key] = append(keys[told.Key], porcupine.Operation{
				ClientId: int(told.Client), Input: told, Call: told.From, Output: told.Out, Return: end,
			})
		}
	}
	return keys, lines.Err()
}

// settled are the requests whose outcome is known. Where these are linearizable the others are too:
// they may come behind all, or never. To look for their places takes long where there are many.
func settled(history []porcupine.Operation) []porcupine.Operation {
	var known []porcupine.Operation
	for _, operation := range history {
		if operation.Return != math.MaxInt64 {
			known = append(known, operation)
		}
	}
	return known
}

// judge tells of each key that is not linearizable; there is a picture of the first one.
func judge(path, picture string) error {
	keys, err := histories(path)
	if err != nil {
		return err
	}
	names, calls, wrong := []string{}, 0, 0
	for name, history := range keys {
		names, calls = append(names, name), calls+len(history)
	}
	sort.Strings(names)
	for _, name := range names {
		if porcupine.CheckOperationsTimeout(key, settled(keys[name]), time.Minute) == porcupine.Ok {
			continue
		}
		result, info := porcupine.CheckOperationsVerbose(key, keys[name], 5*time.Minute)
		if result == porcupine.Ok {
			continue
		}
		fmt.Printf("%s, %d calls: %s\n", name, len(keys[name]), result)
		if wrong == 0 && porcupine.VisualizePath(key, info, picture) == nil {
			fmt.Println("a picture is in", picture)
		}
		wrong++
	}
	fmt.Printf("%d calls of %d keys, of which %d are wrong\n", calls, len(names), wrong)
	if wrong > 0 {
		return errors.New("the clients were not told the truth")
	}
	return nil
}
