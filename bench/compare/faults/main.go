//go:build faults && unix

package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) == 5 && os.Args[1] == "child" {
		child(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	only := strings.Join(os.Args[1:], " ")
	for _, fault := range []struct {
		name string
		each func(peer) string
	}{
		{"the clock goes back by 2 s, twice, in a process, and is right again", back},
		{"the clock goes back across a restart", restart},
		{"two processes have one worker ID", two},
		{"a process is paused for a minute, and another takes its place", pause},
		{"the time bits run out", exhaust},
		{"a program makes a generator for each call", eachCall},
	} {
		if !strings.Contains(fault.name, only) {
			continue
		}
		fmt.Println(fault.name)
		said := make([]string, len(peers))
		each(fault.name, fault.each, said)
		for i, p := range peers {
			if said[i] != "" {
				fmt.Printf("  %-21s %s\n", p.name, said[i])
			}
		}
	}
}

// each runs a fault for all peers: concurrently if the fault takes real time, and otherwise one
// after another, because they share the process's clock.
func each(name string, do func(peer) string, said []string) {
	var all sync.WaitGroup
	for i, p := range peers {
		if strings.Contains(name, "paused") {
			all.Go(func() { said[i] = do(p) })
		} else {
			said[i] = do(p)
		}
	}
	all.Wait()
}

func open(p peer, dir string) next {
	n, err := p.open(dir)
	if err != nil {
		log.Fatalf("%s: %v", p.name, err)
	}
	return n
}

func tempDir() string { return must(os.MkdirTemp("", "faults")) }

// batch is the result of several calls.
type batch struct {
	ids    []string
	failed int
	err    error
	took   time.Duration
}

func (b *batch) call(n next, times int) {
	begun := time.Now()
	for range times {
		id, err := n()
		if err != nil {
			b.failed++
			b.err = err
			continue
		}
		b.ids = append(b.ids, id)
	}
	b.took = time.Since(begun)
}

func (b batch) String() string {
	seen := map[string]bool{}
	for _, id := range b.ids {
		seen[id] = true
	}
	said := fmt.Sprintf("%d IDs, %d duplicates", len(b.ids), len(b.ids)-len(seen))
	if !slices.IsSorted(b.ids) {
		said += ", not in order"
	}
	if b.failed > 0 {
		said += fmt.Sprintf(", %d refused (%v)", b.failed, b.err)
	}
	return said
}

func back(p peer) string {
	dir := tempDir()
	defer os.RemoveAll(dir)
	n := open(p, dir)
	var b batch
	b.call(n, 1000)
	var took []time.Duration
	for range 2 {
		time.FaultWall -= 2
		time.Sleep(200 * time.Millisecond) // this library sees a step within 100 ms
		b.call(n, 1000)
		took = append(took, b.took.Round(100*time.Millisecond))
	}
	time.FaultWall += 4
	time.Sleep(200 * time.Millisecond)
	b.call(n, 1000)
	return fmt.Sprintf("%v; 1,000 calls took %v, and after the second step %v", b, took[0], took[1])
}

func restart(p peer) string {
	dir := tempDir()
	defer os.RemoveAll(dir)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	return common(run(p, dir, at), run(p, dir, at))
}

func two(p peer) string {
	dir := tempDir()
	defer os.RemoveAll(dir)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	var a, b []string
	var all sync.WaitGroup
	all.Go(func() { a = run(p, dir, at) })
	all.Go(func() { b = run(p, dir, at) })
	all.Wait()
	return common(a, b)
}

func common(a, b []string) string {
	seen := map[string]bool{}
	for _, id := range a {
		seen[id] = true
	}
	both := slices.DeleteFunc(slices.Clone(b), func(id string) bool { return !seen[id] })
	if len(a) == 0 || len(b) == 0 {
		log.Fatalf("%d and %d IDs: a process without IDs shows nothing", len(a), len(b))
	}
	return fmt.Sprintf("%d and %d IDs, %d of them in both", len(a), len(b), len(both))
}

// command returns a command for another process with a generator. at is the second since 1970 at
// which its clock starts, or "now".
func command(p peer, dir, at string) *exec.Cmd {
	cmd := exec.Command(must(os.Executable()), "child", p.name, dir, at)
	cmd.Stderr = os.Stderr
	return cmd
}

func run(p peer, dir, at string) []string {
	out, err := command(p, dir, at).Output()
	if err != nil {
		log.Fatalf("%s: %v", p.name, err)
	}
	return strings.Fields(string(out))
}

// child issues an ID each millisecond, for 2 s or, if at is "now", until it is killed. Before the
// first ID it may wait, as a lease does in a new directory.
func child(name, dir, at string) {
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
	length := 2 * time.Second
	if at == "now" {
		length = time.Hour
	} else {
		time.FaultWall = must(strconv.ParseInt(at, 10, 64)) - time.Now().Unix()
	}
	n := open(peers[i], dir)
	for begun := time.Now(); time.Since(begun) < length; time.Sleep(time.Millisecond) {
		if id, err := n(); err == nil {
			fmt.Println(id)
		}
	}
}

func pause(p peer) string {
	dir := tempDir()
	defer os.RemoveAll(dir)
	first := started(p, dir)
	time.Sleep(2 * time.Second)
	check(first.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(50 * time.Second)
	second := started(p, dir)
	time.Sleep(10 * time.Second)
	check(first.cmd.Process.Signal(syscall.SIGCONT))
	time.Sleep(3 * time.Second)
	return common(first.end(), second.end())
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	ids  []string
}

// started starts a process, and returns when it has issued its first ID.

func started(p peer, dir string) *process {
	c := &process{cmd: command(p, dir, "now"), done: make(chan struct{})}
	out := must(c.cmd.StdoutPipe())
	check(c.cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		log.Fatalf("%s issued no ID", p.name)
	}
	c.ids = append(c.ids, lines.Text())
	go func() {
		defer close(c.done)
		for lines.Scan() {
			c.ids = append(c.ids, lines.Text())
		}
	}()
	return c
}

func (c *process) end() []string {
	_ = c.cmd.Process.Kill()
	<-c.done
	_ = c.cmd.Wait()
	return c.ids
}

func exhaust(p peer) string {
	if p.end == "" {
		return "in the year 10889, which the clock here does not reach"
	}
	end := must(time.Parse(time.RFC3339, p.end))
	dir := tempDir()
	defer os.RemoveAll(dir)
	step := end.Unix() - time.Now().Unix() - 3 // a busy machine takes a while to open a library
	time.FaultWall += step
	defer func() { time.FaultWall -= step }()
	n := open(p, filepath.Join(dir, "worker-ids"))
	before := must(n())
	time.Sleep(4 * time.Second)
	for range 100 { // a library may see a step late
		if id, err := n(); err != nil {
			return fmt.Sprintf("%s: refused (%v)", end.Format(time.DateOnly), err)
		} else if id < before || strings.HasPrefix(id, "negative") {
			return fmt.Sprintf("%s: %s, after %s", end.Format(time.DateOnly), id, before)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Sprintf("%s: continues", end.Format(time.DateOnly))
}

// eachCall makes a generator for each ID, in many goroutines.
func eachCall(p peer) string {
	if p.leased {
		return "" // the lease refuses a second generator
	}
	const goroutines, calls = 100, 1000
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			ids := make([]string, 0, calls)
			for range calls {
				ids = append(ids, must(open(p, "")()))
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				seen[id]++
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d IDs, %d duplicates", goroutines*calls, goroutines*calls-len(seen))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
