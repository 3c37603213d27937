// Judges a history of a cluster's clients by porcupine, as the example linearizable of
// lab/everleaf-testkit does, which says what a line is.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type line struct {
	Client int
	Op     string
	Key    string
	Value  *int64
	From   int64
	To     *int64
}

// absent is the value of a key that is not there.
const absent = -1

type input struct {
	put   bool
	key   string
	value int64
}

// register has one value of one key.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(input).key
			keys[key] = append(keys[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range keys {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return int64(absent) },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		if call := in.(input); call.put {
			return true, call.value
		}
		return out.(int64) == state.(int64), state
	},
	DescribeOperation: func(in, out interface{}) string {
		if call := in.(input); call.put {
			return fmt.Sprintf("put %s %d", call.key, call.value)
		}
		return fmt.Sprintf("get %s: %d", in.(input).key, out)
	},
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var told line
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			return nil, err
		}
		value := int64(absent)
		if told.Value != nil {
			value = *told.Value
		}
		operation := porcupine.Operation{
			ClientId: told.Client,
			Input:    input{told.Op == "put", told.Key, value},
			Call:     told.From,
			Output:   value,
			Return:   math.MaxInt64,
		}
		if told.To != nil {
			operation.Return = *told.To
		}
		if told.Op == "nothing" || told.Op == "get" && told.To == nil {
			continue
		}
		history = append(history, operation)
	}
	return history, lines.Err()
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "write `porcupine FILE PICTURE`")
		os.Exit(2)
	}
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	result, info := porcupine.CheckOperationsVerbose(register, history, 10*time.Minute)
	fmt.Printf("%d calls: %s\n", len(history), result)
	if result != porcupine.Ok {
		if err := porcupine.VisualizePath(register, info, os.Args[2]); err == nil {
			fmt.Println("a picture is in", os.Args[2])
		}
		os.Exit(1)
	}
}
