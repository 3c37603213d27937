package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// patience is how long a client waits for replies.
const patience = 3 * time.Second

// refusal is an error reply.
type refusal string

func (r refusal) Error() string { return string(r) }

// isNotDone says whether the server promises that nothing was done: nobody leads, another node
// does, or there is no room.
func isNotDone(err error) bool {
	var said refusal
	if !errors.As(err, &said) {
		return false
	}
	for _, begin := range []string{
		"CLUSTERDOWN no leader", "MOVED ", "OOM ", "SERVER_ERROR no leader",
		"SERVER_ERROR out of memory storing object",
	} {
		if strings.HasPrefix(string(said), begin) {
			return true
		}
	}
	return false
}

// node is a connection to one.
type node struct {
	net.Conn
	reader *bufio.Reader
}

func dial(address string) (*node, error) {
	stream, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &node{stream, bufio.NewReader(stream)}, nil
}

func (n *node) send(text string) error {
	n.SetDeadline(time.Now().Add(patience))
	_, err := io.WriteString(n, text)
	return err
}

func (n *node) line() (string, error) {
	text, err := n.reader.ReadString('\n')
	return strings.TrimRight(text, "\r\n"), err
}

// bytes reads so many, and the end of the line.
func (n *node) bytes(length string) (string, error) {
	count, err := strconv.Atoi(length)
	if err != nil {
		return "", err
	}
	bytes := make([]byte, count+2)
	_, err = io.ReadFull(n.reader, bytes)
	return string(bytes[:count]), err
}

// redis makes requests at once, and returns the reply to the last one, unless one is an error.
func (n *node) redis(requests ...[]string) (string, error) {
	var text strings.Builder
	for _, words := range requests {
		fmt.Fprintf(&text, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if err := n.send(text.String()); err != nil {
		return "", err
	}
	var told string
	var said error
	for range requests {
		reply, err := n.reply()
		var no refusal
		if err != nil && said == nil {
			said = err
		}
		if err != nil && !errors.As(err, &no) {
			break
		}
		told = reply
	}
	return told, said
}

// reply reads one of Redis: what is in an array has spaces between, and what is null is empty.
func (n *node) reply() (string, error) {
	line, err := n.line()
	if err != nil {
		return "", err
	}
	if line == "" {
		return "", errors.New("an empty line")
	}
	kind, rest := line[0], line[1:]
	switch {
	case kind == '+' || kind == ':':
		return rest, nil
	case kind == '-':
		return "", refusal(rest)
	case rest == "-1":
		return "", nil
	case kind == '$':
		return n.bytes(rest)
	case kind == '*':
		count, err := strconv.Atoi(rest)
		elements := make([]string, 0, max(count, 0))
		for ; err == nil && count > 0; count-- {
			var element string
			element, err = n.reply()
			elements = append(elements, element)
		}
		var no refusal
		if errors.As(err, &no) { // What else the transaction has done is not known.
			err = fmt.Errorf("reply: %s, within a transaction", no)
		}
		return strings.Join(elements, " "), err
	}
	return "", fmt.Errorf("the reply %q", line)
}

// memcached makes a request that is answered by a line.
func (n *node) memcached(request string) (string, error) {
	if err := n.send(request + "\r\n"); err != nil {
		return "", err
	}
	line, err := n.line()
	if err == nil && strings.Contains(line, "ERROR") {
		err = refusal(line)
	}
	return line, err
}

// gets reads a value and its number by memcached's protocol; an empty one if there is none.
func (n *node) gets(key string) (value, number string, err error) {
	line, err := n.memcached("gets " + key)
	if err != nil || line == "END" {
		return "", "", err
	}
	words := strings.Fields(line)
	if len(words) != 5 || words[0] != "VALUE" || words[1] != key {
		return "", "", fmt.Errorf("the reply %q", line)
	}
	if value, err = n.bytes(words[3]); err != nil {
		return "", "", err
	}
	if line, err = n.line(); err == nil && line != "END" {
		err = fmt.Errorf("%q behind a value", line)
	}
	return value, words[4], err
}
