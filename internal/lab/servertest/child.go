//go:build go1.25

package servertest

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Child is a process that runs the test binary again. It writes the IDs that it issues to standard
// output, with WriteIDs, and messages to standard error. It ends with its parent if it calls
// EndWithParent, or if it reads standard input to the end.
type Child struct {
	Lines <-chan string // of standard error; closed at its end
	First chan struct{} // closed after the first ID, or at the end of standard output

	cmd     *exec.Cmd
	stdin   io.WriteCloser
	readers sync.WaitGroup
	reaped  sync.Once

	mu      sync.Mutex
	ids     []snowflake.ID
	firstAt time.Time
}

// StartChild starts a child with variables added to its environment. The child is killed when the
// test ends. The caller must receive its Lines.
func StartChild(t testing.TB, env ...string) *Child {
	t.Helper()
	exe := Must(os.Executable())(t)
	lines := make(chan string)
	c := &Child{Lines: lines, First: make(chan struct{}), cmd: exec.Command(exe, "-test.run=^$")}
	c.cmd.Dir = filepath.Dir(exe)
	// The race detector would sleep for a second at each exit.
	c.cmd.Env = append(append(os.Environ(), env...), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	stdin, err1 := c.cmd.StdinPipe()
	stdout, err2 := c.cmd.StdoutPipe()
	stderr, err3 := c.cmd.StderrPipe()
	Do(t, errors.Join(err1, err2, err3, c.cmd.Start()))
	c.stdin = stdin
	t.Cleanup(c.Kill)
	c.readers.Go(func() { c.readIDs(stdout) })
	c.readers.Go(func() { readLines(stderr, lines) })
	return c
}

// EndWithParent, called by a child, ends it when its parent has ended.
func EndWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// WriteIDs, called by a child, writes IDs for its parent.
func WriteIDs(ids ...snowflake.ID) error {
	var out []byte
	for _, id := range ids {
		out = binary.BigEndian.AppendUint64(out, uint64(id))
	}
	_, err := os.Stdout.Write(out)
	return err
}

func (c *Child) readIDs(r io.Reader) {
	in, first := bufio.NewReader(r), sync.OnceFunc(func() { close(c.First) })
	defer first()
	for b := make([]byte, 8); ; {
		if _, err := io.ReadFull(in, b); err != nil {
			return
		}
		c.mu.Lock()
		if len(c.ids) == 0 {
			c.firstAt = time.Now()
		}
		c.ids = append(c.ids, snowflake.ID(binary.BigEndian.Uint64(b)))
		c.mu.Unlock()
		first()
	}
}

// readLines omits an incomplete last line, which a child that is killed may leave.
func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		lines <- line
	}
}

// IDs returns the IDs that the child has issued so far, and the time at which the first one
// arrived.
func (c *Child) IDs() (ids []snowflake.ID, firstAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.ids), c.firstAt
}

// Tell writes a line to the child's standard input.
func (c *Child) Tell(line string) error {
	_, err := io.WriteString(c.stdin, line+"\n")
	return err
}

// Process returns the child's process.
func (c *Child) Process() *os.Process { return c.cmd.Process }

// State returns the state of the ended child. It is nil before Kill or Wait has returned.
func (c *Child) State() *os.ProcessState { return c.cmd.ProcessState }

// Kill kills the child, and waits until it has ended.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	c.Wait()
}

// Wait waits until the child has ended.
func (c *Child) Wait() {
	c.reaped.Do(func() {
		c.readers.Wait()
		_ = c.cmd.Wait()
	})
}

// Issued collects the IDs that several children have issued.
type Issued struct {
	mu  sync.Mutex
	ids []issuedID
}

type issuedID struct {
	id  snowflake.ID
	run int32
}

// Add adds IDs of the child with the number run.
func (s *Issued) Add(run int, ids ...snowflake.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.ids = append(s.ids, issuedID{id, int32(run)})
	}
}

// Len returns the number of IDs.
func (s *Issued) Len() int { return len(s.ids) }

// Check fails the test if an ID was issued twice, or if two children stamped the same tick of a
// worker ID and clock sequence.
func (s *Issued) Check(t testing.TB, l snowflake.Layout) {
	t.Helper()
	slices.SortFunc(s.ids, func(a, b issuedID) int { return cmp.Compare(a.id, b.id) })
	for i := range max(0, len(s.ids)-1) {
		a, b := s.ids[i], s.ids[i+1]
		if a.id == b.id {
			t.Fatalf("%v was issued by run %d and run %d: %v", a.id, a.run, b.run, l.Decode(a.id))
		}
		if a.id>>l.SequenceBits == b.id>>l.SequenceBits && a.run != b.run {
			t.Fatalf("two runs stamped one tick: run %d: %v; run %d: %v", a.run, l.Decode(a.id), b.run, l.Decode(b.id))
		}
	}
}
