//go:build unix && go1.25

// Package servertest runs the lease stores against real servers, which it starts, stops, and puts
// behind a faulty network while fleets of processes issue IDs.
package servertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Program returns the path of an installed program, the first candidate that exists. A candidate is
// a name in PATH or an absolute pattern. If none exists, Program skips the test or, if the
// environment variable CI is set, fails it, and names the Debian package.
func Program(t testing.TB, debianPackage string, candidates ...string) string {
	t.Helper()
	for _, c := range candidates {
		if found, err := filepath.Glob(c); err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
		if path, err := exec.LookPath(c); err == nil {
			return path
		}
	}
	absent(t, fmt.Sprintf("%v is not installed: apt-get install %s", candidates, debianPackage))
	return ""
}

// absent skips the test because the machine lacks something or, if the environment variable CI is
// set, fails it.
func absent(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Port returns a free TCP port of the loopback interface. Until the test ends, a socket is bound to
// the port without listening, so that no other test or connection is given it, and a server may
// listen on it and restart.
func Port(t testing.TB) int {
	t.Helper()
	syscall.ForkLock.RLock() // so that no server inherits the socket
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	Do(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	Do(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	Do(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	addr := Must(syscall.Getsockname(fd))(t)
	return addr.(*syscall.SockaddrInet4).Port
}

// Dir returns a directory that is removed when the test ends. If this process runs as root and
// owner is not empty, the directory belongs to that user. If there is no such user, the server is
// not installed, and Dir skips or fails the test like Program.
func Dir(t testing.TB, owner string) string {
	t.Helper()
	dir := Must(os.MkdirTemp("", "servertest"))(t)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	if id := credential(t, owner); id != nil {
		Do(t, os.Chown(dir, int(id.Uid), int(id.Gid)))
	}
	return dir
}

// credential returns the user as which to run a server. It is nil if name is empty, or if this
// process does not run as root and so cannot change the user.
func credential(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	if name == "" || os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if errors.As(err, new(user.UnknownUserError)) {
		absent(t, fmt.Sprintf("there is no user %s: its server is not installed", name))
	}
	Do(t, err)
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	Do(t, errors.Join(err1, err2))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Command is the command that starts a server.
type Command struct {
	Path string
	Args []string
	Env  []string // added to this process's environment
	Dir  string
	User string // the server's user, if this process runs as root
}

// Process is a server that runs until the test ends. Its methods must not be called concurrently.
type Process struct {
	t     testing.TB
	c     Command
	ready func() error
	out   *os.File // its output
	cmd   *exec.Cmd
	gone  chan struct{} // closed when cmd.Wait has returned
}

// Start starts a server and waits until ready returns nil.
func Start(t testing.TB, c Command, ready func() error) *Process {
	t.Helper()
	p := &Process{t: t, c: c, ready: ready, out: Must(os.CreateTemp("", "servertest"))(t)}
	t.Cleanup(func() { _, _ = p.out.Close(), os.Remove(p.out.Name()) })
	p.Restart()
	t.Cleanup(p.Kill)
	return p
}

// Restart starts a server that was killed, and waits until it is ready.
func (p *Process) Restart() {
	p.t.Helper()
	cmd, gone := exec.Command(p.c.Path, p.c.Args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr, cmd.Dir = p.out, p.out, p.c.Dir
	cmd.Env = append(os.Environ(), p.c.Env...)
	cmd.SysProcAttr = attributes(credential(p.t, p.c.User))
	Do(p.t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	p.cmd, p.gone = cmd, gone
	for begun := time.Now(); ; {
		err := p.ready()
		if err == nil {
			return
		}
		select {
		case <-p.gone:
			p.t.Fatalf("%s has exited: %v\n%s", p.c.Path, p.cmd.ProcessState, p.said())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(begun) > patience {
			p.t.Fatalf("%s is not ready: %v\n%s", p.c.Path, err, p.said())
		}
	}
}

// said returns the end of the server's output.
func (p *Process) said() []byte {
	all, _ := os.ReadFile(p.out.Name())
	return all[max(0, len(all)-4000):]
}

// Kill kills the server and its children with SIGKILL. If they are dead, it does nothing.
func (p *Process) Kill() {
	select {
	case <-p.gone:
		return
	default:
	}
	pids := p.signal(syscall.SIGKILL)
	<-p.gone
	for _, pid := range pids { // a running child can prevent a restart
		awaitState(pid, "Z")
	}
}

// LoseDisk kills the server, removes a directory, and restarts the server.
func (p *Process) LoseDisk(dir string) {
	p.t.Helper()
	p.Kill()
	Do(p.t, os.RemoveAll(dir))
	p.Restart()
}

// Pause stops the server and its children with SIGSTOP, and waits until all threads have stopped.
func (p *Process) Pause() {
	for _, pid := range p.signal(syscall.SIGSTOP) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
		for _, thread := range threads {
			tid, _ := strconv.Atoi(filepath.Base(thread))
			awaitState(tid, "TZ")
		}
	}
}

// Resume continues a server that Pause stopped.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// awaitState waits until a process or thread has one of the states, or has ended.
func awaitState(id int, states string) {
	for f := stat(id); f != nil && !strings.Contains(states, f[0]); f = stat(id) {
		time.Sleep(time.Millisecond)
	}
}

// signal signals the server and its children, and returns their process IDs. It stops the server
// first, so that it does not start more children.
func (p *Process) signal(s syscall.Signal) (pids []int) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	awaitState(p.cmd.Process.Pid, "TZ")
	pids = p.tree()
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
	return pids
}

// tree returns the process IDs of the server and of its descendants.
func (p *Process) tree() []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if f := stat(pid); f != nil {
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], pid)
		}
	}
	pids := []int{p.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// stat returns the fields of /proc/PID/stat, from the process's state on.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(b), ") ")
	if f := strings.Fields(after); len(f) > 14 {
		return f
	}
	return nil
}

// CPU returns the CPU time that the server and its children have used, as far as /proc shows it.
func (p *Process) CPU() (sum time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ
	for _, pid := range p.tree() {
		if f := stat(pid); f != nil {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			sum += time.Duration(user+system) * tick
		}
	}
	return sum
}
