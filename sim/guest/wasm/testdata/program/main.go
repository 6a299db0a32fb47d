// Command program is what the tests run. The environment variable DO names the part.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

var parts = map[string]func(){
	"hello":  hello,
	"timers": timers,
	"tick": func() {
		for {
			time.Sleep(time.Millisecond)
		}
	},
	"talk":    talk,
	"dial":    dial,
	"name":    name,
	"give up": giveUp,
	"cancel":  cancelDial,
	"inside":  inside,
	"term":    term,
	"ignore":  func() { signal.Ignore(syscall.SIGTERM); time.Sleep(time.Second); fmt.Println("alive") },
	"stop":    stop,
	"sleep":   func() { time.Sleep(time.Hour) },
	"pipe":    pipe,
	"random":  random,
	"panic":   func() { panic("oh no") },
	"hang":    func() { select {} },
	"loop": func() {
		for {
			steps++
		}
	},
	"clock": func() {
		for {
			time.Now()
		}
	},
	"print": func() {
		for {
			fmt.Print()
			os.Stdout.Write([]byte{'x'})
		}
	},
	"yield": func() {
		for {
			runtime.Gosched()
		}
	},
	"files": files,
}

var steps int

func main() { parts[os.Getenv("DO")]() }

func hello() {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("hello %s %q %v\n", os.Getenv("NAME"), line, err)
	fmt.Fprintln(os.Stderr, "trouble")
	os.Exit(3)
}

func timers() {
	begin := time.Now()
	tick := time.NewTicker(time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
	defer cancel()
	for {
		select {
		case <-tick.C:
			fmt.Println(time.Since(begin).Round(time.Millisecond), time.Now().Format(time.DateTime))
		case <-ctx.Done():
			fmt.Println(time.Since(begin).Round(time.Millisecond), ctx.Err())
			return
		}
	}
}

// talk answers each line that arrives, until the end.
func talk() {
	c, err := net.Dial("tcp", "10.0.0.1:6379")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("connected to", c.RemoteAddr())
	fmt.Fprintf(c, "begin\n")
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		fmt.Fprintf(c, "got %s\n", lines.Text())
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	err = lines.Err()
	_, again := c.Write([]byte("still there?\n"))
	fmt.Println("end:", err, errors.Is(err, syscall.ECONNRESET), os.IsTimeout(err), again)
	fmt.Println(c.Close())
}

func dial() {
	_, err := net.Dial("tcp", "10.0.0.1:6379")
	fmt.Println(err, errors.Is(err, syscall.ECONNREFUSED))
}

func name() {
	fmt.Println(os.Hostname())
	for _, addr := range []string{"redis.example.com:6379", "localhost:6379", "redis.example.com:26379"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(c.RemoteAddr())
		c.Close()
	}
}

func giveUp() {
	_, err := net.DialTimeout("tcp", "10.0.0.1:6379", 3*time.Second)
	fmt.Println(err, os.IsTimeout(err))
}

func cancelDial() {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Second, cancel)
	var d net.Dialer
	_, err := d.DialContext(ctx, "tcp", "10.0.0.1:6379")
	fmt.Println(err)
}

// inside has a server and a client in one program.
func inside() {
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "served ", r.URL.Path) }))
	answer, err := http.Get("http://127.0.0.1:8080/page")
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Println(string(body), err)
}

func term() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	c, err := net.Dial("tcp", "10.0.0.1:6379")
	if err != nil {
		fmt.Println(err)
		return
	}
	go io.Copy(os.Stdout, c)
	<-ctx.Done()
	fmt.Println("stopping:", context.Cause(ctx))
	time.Sleep(time.Second)
	fmt.Println("stopped")
}

// stop handles the signal only at first.
func stop() {
	_, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	time.Sleep(time.Second)
	stop()
	fmt.Println("no handler")
	time.Sleep(time.Hour)
}

//go:wasmimport leasestorm pipe
func hostPipe(r, w *int32) uint32

func pipe() {
	var r, w int32
	if hostPipe(&r, &w) != 0 {
		return
	}
	from, to := os.NewFile(uintptr(r), "from"), os.NewFile(uintptr(w), "to")
	go func() {
		for i := range 3 {
			time.Sleep(time.Second)
			fmt.Fprintf(to, "line %d\n", i)
		}
		to.Close()
	}()
	b, err := io.ReadAll(from)
	fmt.Printf("%q %v\n", b, err)
	from.SetReadDeadline(time.Now())
	hostPipe(&r, &w)
	from, to = os.NewFile(uintptr(r), "from"), os.NewFile(uintptr(w), "to")
	from.SetReadDeadline(time.Now().Add(time.Second))
	_, err = from.Read(make([]byte, 1))
	fmt.Println(err)
	from.Close()
	_, err = to.Write([]byte("x"))
	fmt.Println(err)
}

// random prints what depends on the randomness of the runtime, too.
func random() {
	fmt.Println(rand.Int())
	m := map[int]bool{}
	for i := range 20 {
		m[i] = true
	}
	for i := range m {
		fmt.Print(i, " ")
	}
	fmt.Println()
	results := make(chan int)
	for i := range 10 {
		go func() { time.Sleep(time.Duration(rand.Intn(5)) * time.Second); results <- i }()
	}
	for range 10 {
		fmt.Print(<-results, " ")
	}
	fmt.Println(time.Now().UnixNano())
}

func files() {
	_, err := os.ReadFile("/etc/hosts")
	fmt.Println(err, errors.Is(err, os.ErrNotExist))
	_, err = os.Stat("config.yaml")
	fmt.Println(err, errors.Is(err, os.ErrNotExist))
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		info, err := f.Stat()
		fmt.Println(info.Mode(), err)
	}
	_, err = os.Create("new")
	fmt.Println(err)
}
