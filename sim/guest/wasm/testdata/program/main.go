// Command program is what the tests run: the environment variable DO says which part.
package main

import (
	"fmt"
	"os"
	"time"
)

var parts = map[string]func(){
	"hello": hello,
	"timer": timer,
}

func main() { parts[os.Getenv("DO")]() }

func hello() {
	fmt.Println("hello", os.Getenv("NAME"))
	fmt.Fprintln(os.Stderr, "trouble")
	os.Exit(3)
}

func timer() {
	begin := time.Now()
	for range 3 {
		time.Sleep(time.Second)
		fmt.Println(time.Since(begin).Round(time.Millisecond), time.Now().Format(time.DateTime))
	}
}
