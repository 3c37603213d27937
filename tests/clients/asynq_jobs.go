// asynq: `push` or `work`.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func push(redis asynq.RedisClientOpt) {
	client := asynq.NewClient(redis)
	for number := 0; ; number++ {
		task := asynq.NewTask("ran", []byte(fmt.Sprint(number)))
		if _, err := client.Enqueue(task); err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		fmt.Println(number)
	}
}

func ran(_ context.Context, task *asynq.Task) error {
	file, err := os.OpenFile(os.Getenv("RAN"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s\n", task.Payload())
	return err
}

func main() {
	redis := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Getenv("PORT")}
	if os.Args[1] == "push" {
		push(redis)
	}
	config := asynq.Config{Concurrency: 4, LogLevel: asynq.FatalLevel}
	if err := asynq.NewServer(redis, config).Run(asynq.HandlerFunc(ran)); err != nil {
		panic(err)
	}
}
