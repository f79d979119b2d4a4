//go:build go1.25

package lease

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// A story says what happens, which lines of doc.go's proof it holds, and commands. To the right of
// each command is what each party saw, and when, counted from the beginning of the story. The code
// is the real code in fake time; only its dice are loaded. -update writes what the parties see into
// the stories: review the diff. The function do has the commands. The files of testdata/stories are
// txtar archives of stories, one for each section of the proof.

//go:embed testdata/stories
var archives embed.FS

var update = flag.Bool("update", false, "TestStories writes what the parties see into the stories")

var storyNames = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// eachStory calls f for each story of a file, and returns the file with the texts that f returns.
func eachStory(archive string, f func(name, text string) string) string {
	names := storyNames.FindAllStringSubmatchIndex(archive, -1)
	told := archive[:names[0][0]]
	for i, at := range names {
		end := len(archive)
		if i+1 < len(names) {
			end = names[i+1][0]
		}
		text := strings.TrimRight(archive[at[1]:end], "\n") + "\n"
		told += archive[at[0]:at[1]] + f(archive[at[2]:at[3]], text) + "\n"
	}
	return strings.TrimSuffix(told, "\n")
}

func TestStories(t *testing.T) {
	defer func(old func(int64) int64, most int) { machine.Dice, book.MaxStores = old, most }(machine.Dice, book.MaxStores)
	book.MaxStores = 64 // also in the simulator
	files, err := fs.Glob(archives, "testdata/stories/*")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "/clones.txtar") && runtime.GOOS != "linux" {
			continue
		}
		archive, err := archives.ReadFile(file)
		require.NoError(t, err)
		told := eachStory(string(archive), func(name, text string) (told string) {
			told = text
			t.Run(name, func(t *testing.T) {
				told = tell(t, text, false)
				if strings.Contains(told, "engine=both") {
					require.Equal(t, told, tell(t, told, true), "if the engine has a clock, the story differs")
				}
				if !*update {
					require.Equal(t, text, told)
				}
			})
			return told
		})
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(told), 0o644))
		}
	}
}

// linesOfTheProof returns the names of the lines in doc.go.
func linesOfTheProof(t *testing.T) (names []string) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, of := range regexp.MustCompile(`(?m)^//\s+(?:\d+\. |- )?([a-z][a-z ]*): [A-Z]`).FindAllSubmatch(doc, -1) {
		names = append(names, string(of[1]))
	}
	return names
}

// Each line of doc.go's proof is cited by a story.
func TestEachLineOfTheProofIsCited(t *testing.T) {
	names, cited := map[string]bool{}, map[string]bool{}
	for _, name := range linesOfTheProof(t) {
		names[name] = true
	}
	files, err := fs.Glob(archives, "testdata/stories/*")
	require.NoError(t, err)
	for _, file := range files {
		archive, err := archives.ReadFile(file)
		require.NoError(t, err)
		eachStory(string(archive), func(story, text string) string {
			lines := regexp.MustCompile(`(?m)^Proof: (.*)\.$`).FindAllStringSubmatch(text, -1)
			require.Len(t, lines, 1, story)
			for name := range strings.SplitSeq(lines[0][1], ", ") {
				assert.True(t, names[name], "%s cites %q, which doc.go does not have", story, name)
				cited[name] = true
			}
			return text
		})
	}
	assert.Equal(t, names, cited)
}

// tell does the commands of a story, and returns the story with what the parties see.
func tell(t *testing.T, text string, engine bool) string {
	var told strings.Builder
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = engine
		s := &story{memory: m, t: t, begun: time.Now(), parties: map[string]*party{}, issued: map[snowflake.ID]bool{},
			bounds: map[[2]int]time.Time{}}
		var draws atomic.Int64
		machine.Dice = func(n int64) int64 { // worker IDs are read in turn, and no rest is shorter
			if n == 1 || n > 1<<16 {
				return 0
			}
			return (draws.Add(1) - 1) % n
		}
		defer s.end()
		head, script, _ := strings.Cut(text, "\n\n")
		told.WriteString(head + "\n\n")
		for text := range strings.Lines(script) {
			text, _, _ = strings.Cut(text, "|")
			c := readCommand(t, strings.TrimSpace(text))
			if len(c.words) == 0 {
				continue // more of what was seen
			}
			s.do(c)
			synctest.Wait()
			for i, seen := range s.seen() {
				told.WriteString(strings.TrimRight(fmt.Sprintf("%-26s| %s", []string{c.line, ""}[min(i, 1)], seen), " |") + "\n")
			}
		}
	})
	return told.String()
}

// command is a line such as "acquire a window=3s".
type command struct {
	t       *testing.T
	line    string
	words   []string
	options map[string]string
}

func readCommand(t *testing.T, line string) command {
	c := command{t, line, nil, map[string]string{}}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok {
			c.options[key] = value
		} else {
			c.words = append(c.words, word)
		}
	}
	return c
}

func (c command) duration(text string) time.Duration {
	d, err := time.ParseDuration(cmp.Or(text, "0"))
	require.NoError(c.t, err, c.line)
	return d
}

func (c command) number(text string) int {
	n, err := strconv.Atoi(cmp.Or(text, "0"))
	require.NoError(c.t, err, c.line)
	return n
}

// fault returns what the command "store" wants.
func (c command) fault() fault {
	what, value, _ := strings.Cut(strings.TrimPrefix(c.line, "store "), "=")
	switch what {
	case "down":
		return down
	case "hangs":
		return hangs
	case "bad":
		return bad
	case "loses answers":
		return silent
	case "fails":
		return loses(int64(c.number(value)))
	case "repeats":
		return repeats(int64(c.number(value)))
	case "refuses":
		return refuses(strings.Split(value, ",")...)
	case "conflicts":
		return refusesAll(strings.Split(value, ",")...)
	case "late":
		return late(c.duration(value))
	case "slow":
		return slow(c.duration(value))
	}
	c.t.Fatalf("no such fault: %s", c.line)
	return nil
}

// story is the world of a story.
type story struct {
	*memory
	t       *testing.T
	begun   time.Time
	layout  snowflake.Layout
	workers int
	parties map[string]*party
	all     []*party
	backup  map[string]Entry
	root    string // of the local copies

	directory bool // the store is a directory, and the file beside it is lost with its entries

	mu     sync.Mutex
	lines  []seen
	issued map[snowflake.ID]bool
	bounds map[[2]int]time.Time // the latest that were stored, by worker ID and clock sequence
	mark   snowflake.ID         // the watermark
	asleep time.Duration        // for how long all hosts were suspended
}

// seen is what a party saw.
type seen struct {
	at    time.Duration
	party string
	after int // 1 if it is the result of a call: it comes after the lines of the log, in any order
	text  string
}

func (s *story) say(at time.Time, party string, after int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, seen{at.Sub(s.begun), party, after, s.relative(text)})
}

// tells adds a line that is the store's, or no party's.
func (s *story) tells(format string, args ...any) {
	s.say(time.Now(), "store", 1, fmt.Sprintf(format, args...))
}

// broken fails the test, also with -update.
func (s *story) broken(why string) { s.t.Errorf("BROKEN: %s", why) }

var (
	instants  = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)`)
	numbers   = regexp.MustCompile(`[-0-9.hms]*\d[hms]*`)
	tail      = regexp.MustCompile(`; (worker \d+ may stamp IDs before|MaxLeap allows) .*`)
	processes = regexp.MustCompile(` \([^()]*, pid \d+\)`)
	copies    = regexp.MustCompile(` @[A-Z2-7]{26}`)
)

// relative rewrites instants as times since the beginning of the story, and leaves out what differs
// from run to run.
func (s *story) relative(text string) string {
	text = strings.NewReplacer("lease: ", "", "snowflake: ", "").Replace(processes.ReplaceAllString(text, ""))
	text = copies.ReplaceAllString(tail.ReplaceAllString(text, ""), " @copy")
	if s.root != "" {
		text = strings.ReplaceAll(filepath.ToSlash(text), filepath.ToSlash(s.root)+"/", "")
	}
	return instants.ReplaceAllStringFunc(text, func(instant string) string {
		at, err := time.Parse(time.RFC3339Nano, strings.Replace(strings.Replace(instant, " +0000 UTC", "Z", 1), " ", "T", 1))
		require.NoError(s.t, err)
		return s.at(at)
	})
}

func (s *story) at(instant time.Time) string {
	if instant.IsZero() {
		return "never"
	}
	return short(instant.Sub(s.begun))
}

// short returns d as a short text.
func short(d time.Duration) string {
	text := d.Round(ms).String()
	for _, whole := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, whole) {
			text = text[:len(text)-len("0s")]
		}
	}
	return text
}

// seen returns what the parties saw since the last command, each for itself; or one empty line.
func (s *story) seen() (told []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.lines, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.party, b.party), cmp.Compare(a.after, b.after),
			strings.Compare(a.text, b.text)*a.after)
	})
	for _, l := range s.lines {
		told = append(told, fmt.Sprintf("%-7s %s: %s", short(l.at), l.party, l.text))
	}
	s.lines = nil
	return append(told, "")[:max(1, len(told))]
}

// end lets all processes end.
func (s *story) end() {
	s.becomes()
	machine.BootClock = noBoot
	for _, p := range s.all {
		p.crash()
		p.resume(nil)
		if l := p.l.Load(); l != nil {
			<-l.ended
		}
	}
	time.Sleep(time.Hour)
}

// do carries out a command.
func (s *story) do(c command) {
	what, words := c.words[0], append(c.words[1:], "", "")
	p := s.party(words[0])
	if slices.Contains([]string{"release", "stats", "accept", "hold"}, what) && p.l.Load() == nil {
		p.says("it has no lease")
		return
	}
	switch what {
	case "world": // workers=N sequences=N engine=yes boot=yes directory=yes
		s.directory = c.options["directory"] == "yes"
		bitsOf := func(key string) uint8 { return uint8(bits.Len(uint(max(1, c.number(c.options[key])) - 1))) }
		s.workers = max(1, c.number(c.options["workers"]))
		s.layout = snowflake.Layout{
			Epoch:        snowflake.UnixEpoch,
			Unit:         ms,
			TimeBits:     41,
			WorkerBits:   bitsOf("workers"),
			ClockSeqBits: bitsOf("sequences"),
			SequenceBits: 4,
		}
		s.ownClock = s.ownClock || c.options["engine"] == "yes"
		if c.options["boot"] == "yes" { // all parties have one host, which tells when it was booted
			machine.BootClock = func() (string, time.Duration, time.Duration) {
				return "host", time.Since(s.begun) + s.asleep, s.asleep
			}
		}
	case "init": // opens the store, as a migration does
		if err := Init(s.t.Context(), s.memory, s.layout); err != nil {
			s.tells("%v", err)
		} else {
			s.tells("it is open")
		}
	case "acquire": // NAME, options
		s.acquire(words[0], c)
	case "cancel": // NAME: its Acquire
		p.cancel()
	case "release":
		go func() {
			if err := p.l.Load().Release(s.t.Context()); err != nil {
				p.says("Release fails: %v", err)
			}
		}()
	case "next": // NAME... [for DURATION] [within=DURATION] [every=DURATION]
		var long time.Duration
		names := c.words[1:]
		if i := slices.Index(names, "for"); i >= 0 {
			names, long = names[:i], c.duration(names[i+1])
		}
		for _, name := range names {
			go s.party(name).calls(long, c.duration(cmp.Or(c.options["every"], "97ms")), c.duration(c.options["within"]))
		}
		time.Sleep(long)
	case "advance":
		time.Sleep(c.duration(words[0]))
	case "pause": // NAME: all of the process stands still
		p.stop(what, true)
	case "stop": // NAME before|after get|list|put|delete KEY: it stands still there
		p.stop(strings.Join(c.words[2:], " "), false)
	case "resume": // NAME [without an answer]
		p.resume(map[bool]error{true: errDown}[words[1] == "without"])
	case "crash":
		p.crash()
	case "clock", "suspend":
		// NAME|engine DURATION|right. While a machine is suspended, its clock runs on, and its
		// timers do not.
		d := c.duration(map[bool]string{true: "0"}[words[1] == "right"] + map[bool]string{true: words[1]}[words[1] != "right"])
		switch {
		case words[0] == "engine":
			s.set(func() { s.offset += d })
		case words[1] == "right":
			p.c.set(0)
		default:
			p.c.step(d)
		}
		if what == "suspend" {
			s.asleep += d
		}
	case "garble": // KEY: its entry cannot be read
		s.set(func() { s.store(&query{do: "put", key: words[0], value: []byte("?")}) })
	case "drift": // NAME DURATION every=DURATION for=DURATION: its clock runs fast or slow
		for end := time.Now().Add(c.duration(c.options["for"])); time.Now().Before(end); p.c.step(c.duration(words[1])) {
			time.Sleep(c.duration(c.options["every"]))
		}
	case "clone": // NAME: its machine is a copy
		p.clone()
	case "store":
		// up|down|hangs|bad|loses answers, slow=DURATION, late=DURATION, refuses=PREFIX,...,
		// conflicts=PREFIX,..., fails=N, repeats=N
		if s.becomes(); words[0] != "up" {
			s.becomes(c.fault())
		}
	case "delete": // KEY...|everything
		s.set(func() {
			if words[0] == "everything" {
				clear(s.entries)
			}
			for _, key := range c.words[1:] {
				delete(s.entries, key)
			}
		})
	case "copy": // DIR backup|restore|delete [KEY]
		dir, kept := s.dir(words[0]), s.dir(words[0]+".kept")
		var err error
		switch words[1] {
		case "backup":
			err = os.CopyFS(kept, os.DirFS(dir))
		case "restore":
			err = cmp.Or(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept)))
		case "delete":
			err = os.RemoveAll(filepath.Join(dir, words[2]))
		}
		require.NoError(s.t, err)
	case "backup":
		s.set(func() { s.backup = maps.Clone(s.entries) })
	case "restore": // KEY: as it was at the backup
		s.set(func() {
			s.store(&query{do: "put", key: words[0], value: s.backup[words[0]].Value})
		})
	case "seize": // WORKER NAME: another process takes a live holder's worker ID from its bound on
		s.take(c.number(words[0]), words[1])
	case "free": // WORKER: that process releases it
		s.give(c.number(words[0]))
	case "requests": // since the last time
		s.set(func() {
			s.tells("%d entries read, %d stored, %d of them records", s.reads, s.puts, s.saves)
			s.reads, s.puts, s.saves = 0, 0, 0
		})
	case "records": // of the store, or [DIR] of a local copy
		s.tellRecords(words[0])
	case "stats":
		stats := p.l.Load().Stats()
		p.says("%d renewals, %d failures, %d replacements; last error: %v", stats.Renewals, stats.Failures,
			stats.Replacements, stats.LastError)
		if stats.Clones > 0 {
			p.says("cloned: %d times", stats.Clones)
		}
		if stats.Away != nil {
			p.says("the store is away: %v", stats.Away)
		}
		if err := p.l.Load().Err(); err != nil {
			p.says("the lease has ended: %v", err)
		}
	case "accept": // the leap of its clock
		p.l.Load().AcceptLeap()
	case "hold": // NAME begins a transaction
		p.done = append(p.done, p.l.Load().Hold())
	case "commit": // NAME: its earliest transaction
		p.done[0]()
		p.done = p.done[1:]
	case "watermark": // [once|single]
		switch words[0] {
		case "once": // by a process that has never read it before
			s.WatermarkReader = NewWatermarkReader(s.asks)
		case "single": // by the function Watermark, all by one process
			s.WatermarkReader = NewWatermarkReader(s.memory)
		}
		go s.watermark()
	case "retire": // WORKER, whose local copy is gone for good
		go func() {
			if err := Retire(s.t.Context(), s.memory, c.number(words[0])); err != nil {
				s.tells("%v", err)
			} else {
				s.tells("worker %s is retired", words[0])
			}
		}()
	case "whois": // WORKER INSTANT
		id, err := s.layout.Encode(snowflake.Parts{
			Worker:   c.number(words[0]),
			ClockSeq: c.number(c.options["sequence"]),
			Time:     s.begun.Add(c.duration(words[1])),
		})
		require.NoError(s.t, err)
		if by, err := Whois(s.t.Context(), s.memory, id); err == nil {
			s.tells("%s", by.Owner)
		} else {
			s.tells("%v", err)
		}
	default:
		s.t.Fatalf("no such command: %s", c.line)
	}
}

func (s *story) tellRecords(dir string) {
	records := s.records()
	if dir != "" {
		all, err := File(s.dir(dir)).List(s.t.Context(), book.RecordPrefix)
		require.NoError(s.t, err)
		entries := map[int]Entry{}
		for _, e := range all {
			if worker, ok := book.WorkerOf(book.RecordPrefix, e.Key); ok {
				entries[worker] = e
			}
		}
		for worker, e := range entries {
			if bytes.HasPrefix(e.Value, []byte(wanted)) {
				s.say(time.Now(), dir, 1, fmt.Sprintf("worker %d is wanted", worker))
				delete(entries, worker)
			}
		}
		records = recordsIn(maps.Values(entries))
	}
	for _, r := range protocol.Sorted(maps.Values(records)) {
		text := fmt.Sprintf("worker %d %s", r.Worker, r.State)
		if r.Owner != "" {
			text += " by " + r.Owner
		}
		if !r.From.IsZero() {
			text += " from " + s.at(r.From) + ", bound"
		}
		for _, bound := range r.Bounds {
			text += " " + s.at(bound)
		}
		if n := len(r.Ended); n > 0 { // earlier holdings may be in other entries
			h := r.Ended[n-1]
			text += fmt.Sprintf("; before: %s %s to %s", h.Owner, s.at(h.From), s.at(h.To))
		}
		s.say(time.Now(), cmp.Or(dir, "store"), 1, text)
	}
}

func (s *story) watermark() {
	m, err := s.Read(s.t.Context())
	id := m.ID
	s.mu.Lock()
	if id > 0 {
		if id < s.mark {
			s.broken("the watermark falls")
		}
		s.mark = id
	}
	s.mu.Unlock()
	text := "no watermark"
	if id > 0 {
		text = "watermark " + s.at(s.layout.Decode(id+1).Time)
	}
	if err != nil {
		text += ": " + err.Error()
	}
	if m.HeldBy != nil {
		text += fmt.Sprintf(": %s: %v", m.Why, m.HeldBy)
	}
	s.tells("%s", text)
}

// party is a process: its lease, its generator, its clock and its way to the store.
type party struct {
	*story
	name    string
	c       *clock
	cancel  func() // of Acquire
	done    []func()
	last    snowflake.ID
	rewinds bool
	copy    string // Options.LocalCopy
	clones  uint64 // of its machine

	l atomic.Pointer[Lease]
	g atomic.Pointer[snowflake.Generator]

	state   sync.Mutex
	crashed bool
	rule    string        // where the process stops
	stopped chan struct{} // it stands still until this is closed; nil if it runs
	failure error         // the answer to the request at which it stood still
}

func (p *party) says(format string, args ...any) {
	p.say(time.Now(), p.name, 1, fmt.Sprintf(format, args...))
}

func (p *party) Enabled(context.Context, slog.Level) bool { return true }
func (p *party) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *party) WithGroup(string) slog.Handler            { return p }

// Handle is a line of the log.
func (p *party) Handle(_ context.Context, r slog.Record) error {
	p.state.Lock()
	defer p.state.Unlock()
	if p.crashed {
		return nil
	}
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains([]string{"worker", "insteadOf", "freeFrom", "error", "found", "from", "to", "left", "after"}, a.Key) {
			text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
		return true
	})
	p.say(time.Now(), p.name, 0, text)
	return nil
}

func (s *story) party(name string) *party {
	p := s.parties[name]
	if p == nil {
		p = &party{story: s, name: name, c: clockAt(0), cancel: func() {}}
		s.parties[name], s.all = p, append(s.all, p)
	}
	return p
}

func (s *story) acquire(name string, c command) {
	was := s.party(name)
	delete(s.parties, name)
	p := s.party(name)
	p.c, p.rule, p.clones = was.c, was.rule, was.clones // it is the same host
	if c.options["clock"] != "" {
		p.c = clockAt(c.duration(c.options["clock"]))
	}
	o := &Options{
		Layout: s.layout, Owner: cmp.Or(c.options["owner"], name), Clock: p.c, Logger: slog.New(p),
		NewStore: c.options["new"] == "yes" || c.options["new"] == "" && s.neverUsed(),
		Window:   c.duration(c.options["window"]), MaxLeap: c.duration(c.options["leap"]), FloorEvery: c.duration(c.options["floor"]),
		First: c.number(c.options["first"]), Count: cmp.Or(c.number(c.options["count"]), s.workers-c.number(c.options["first"])),
		Reuse:  map[string]Reuse{"keep": ReuseKeep, "once": ReuseOnce}[c.options["reuse"]],
		OnLoss: map[string]OnLoss{"stop": Stop}[c.options["loss"]],
	}
	if dir := c.options["copy"]; dir != "" {
		p.copy = s.dir(dir)
		o.Reuse, o.LocalCopy = ReuseKeep, p.copy
	}
	if c.options["vm"] != "" {
		p.clone()
		o.VMClock = s.dir(p.name + ".vm")
	}
	generator := &snowflake.Options{OnBackward: snowflake.FailPolicy(), RewindTicks: c.number(c.options["rewind"])}
	if p.rewinds = generator.RewindTicks > 0; p.rewinds {
		generator.OnBackward = snowflake.RewindPolicy()
	} else if s.layout.ClockSeqBits > 0 {
		generator.OnBackward = snowflake.ClockSeqPolicy()
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	if within := c.duration(c.options["within"]); within > 0 {
		ctx, cancel = context.WithTimeout(ctx, within)
	}
	p.cancel = cancel
	go func() {
		var store Store = asks(p.ask)
		if s.directory {
			store = lostDirectory{asks(p.ask)}
		}
		l, err := Acquire(ctx, store, o)
		if err != nil {
			if !p.isCrashed() {
				p.says("Acquire fails: %v", err)
			}
			return
		}
		if c.options["generator"] != "no" {
			g, err := snowflake.NewLeased(l, generator)
			assert.NoError(s.t, err)
			p.g.Store(g)
		}
		p.l.Store(l)
		if p.isCrashed() {
			l.cancel()
		}
	}()
}

// lostDirectory is the store of a directory of which nothing is left if its entries are lost.
type lostDirectory struct{ asks }

func (lostDirectory) Trace(context.Context) (string, bool, error) { return "", true, nil }

// clone gives the process's machine another generation.
func (p *party) clone() {
	p.clones++
	vmclocktest.Write(p.t, p.dir(p.name+".vm"), p.clones)
}

// dir returns the path of a local copy, or of another file of a host.
func (s *story) dir(name string) string {
	if s.root == "" {
		s.root = s.t.TempDir()
	}
	return filepath.Join(s.root, name)
}

func (p *party) isCrashed() bool {
	p.state.Lock()
	defer p.state.Unlock()
	return p.crashed
}

// calls asks for an ID, or for IDs for a time, and tells the results. Results that differ only in
// numbers are one line.
func (p *party) calls(long, every, within time.Duration) {
	var result, first, last string
	n, begun, s := 0, time.Now(), p.story
	flush := func() {
		text := fmt.Sprintf("%d IDs from %s to %s%s", n, first, last, result)
		if n == 1 {
			text = "ID " + first + result
		}
		if strings.HasPrefix(result, ":") {
			text = "no ID" + map[bool]string{true: fmt.Sprintf(", %d times until %s", n, last)}[n > 1] + result
		}
		if n > 0 {
			p.say(begun, p.name, 1, text)
		}
	}
	for end := begun.Add(long); ; time.Sleep(every) {
		is, at, now := p.call(within)
		if numbers.ReplaceAllString(s.relative(is), "") != numbers.ReplaceAllString(s.relative(result), "") ||
			is[0] == ',' && is != result {
			flush()
			result, first, n, begun = is, at, 0, now
		}
		n, last = n+1, at
		if time.Until(end) < every {
			break
		}
	}
	flush()
}

// call asks for one ID, and checks that no promise is broken.
func (p *party) call(within time.Duration) (result, at string, now time.Time) {
	ctx, s := p.t.Context(), p.story
	if within > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	s.mu.Lock()
	mark, last := s.mark, p.last
	s.mu.Unlock()
	begun := p.c.Now()
	g := p.g.Load()
	if g == nil {
		return ": it has no worker ID yet", s.at(time.Now()), time.Now()
	}
	id, err := g.NextIDContext(ctx)
	if now = time.Now(); err != nil {
		return ": " + err.Error(), s.at(now), now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.layout.Decode(id)
	for why, broken := range map[string]bool{
		"an ID was issued twice":                 s.issued[id],
		"an ID is at or below the watermark":     id <= mark,
		"an ID is not greater than the last":     id <= last && s.layout.ClockSeqBits == 0 && !p.rewinds,
		"an ID's time is no moment of the call":  is.Time.Before(begun.Truncate(ms)) || is.Time.After(p.c.Now()),
		"an ID is not before the recorded bound": !p.recorded(is),
	} {
		if broken {
			s.broken(fmt.Sprintf("%s: %s: %+v", p.name, why, is))
		}
	}
	s.issued[id], p.last = true, max(p.last, id)
	result = fmt.Sprintf(", worker %d", is.Worker)
	if s.layout.ClockSeqBits > 0 {
		result += fmt.Sprintf(", clock sequence %d", is.ClockSeq)
	}
	return result, s.at(is.Time), now
}

// recorded reports whether an ID's time is before a bound that was saved, in the store or in the
// local copy.
func (p *party) recorded(is snowflake.Parts) bool {
	if is.Time.Before(p.bounds[[2]int{is.Worker, is.ClockSeq}]) || is.Time.Before(p.record(is.Worker).BoundOf(is.ClockSeq)) {
		return true
	}
	if p.copy == "" {
		return false
	}
	r, err := book.GetRecord(book.LineTo(p.t.Context(), File(p.copy)), is.Worker)
	require.NoError(p.t, err)
	return is.Time.Before(r.BoundOf(is.ClockSeq))
}

// stop lets the process stand still, now or at a request.
func (p *party) stop(rule string, now bool) {
	p.state.Lock()
	defer p.state.Unlock()
	if now {
		p.stopped = make(chan struct{})
	} else {
		p.rule = rule
	}
}

func (p *party) resume(failure error) {
	p.state.Lock()
	defer p.state.Unlock()
	p.failure = failure
	if p.stopped != nil {
		close(p.stopped)
		p.stopped = nil
	}
}

func (p *party) crash() {
	p.cancel()
	p.state.Lock()
	defer p.state.Unlock()
	p.crashed, p.rule = true, ""
	if p.stopped == nil {
		p.stopped = make(chan struct{})
	}
	if l := p.l.Load(); l != nil {
		l.cancel()
	}
}

// pass waits while the process stands still.
func (p *party) pass(where string) error {
	p.state.Lock()
	here := p.rule != "" && strings.HasPrefix(where, p.rule)
	if here {
		p.rule, p.stopped = "", make(chan struct{})
		p.says("stands still %s", where)
	}
	stopped := p.stopped
	p.state.Unlock()
	if stopped != nil {
		<-stopped
	}
	if !here {
		return nil
	}
	p.state.Lock()
	defer p.state.Unlock()
	return p.failure
}

// ask is the process's way to the store.
func (p *party) ask(ctx context.Context, q *query) error {
	if err := p.pass("before " + q.do + " " + q.key); err != nil {
		return err
	}
	err := p.asks(ctx, q)
	if err == nil && q.saves() {
		p.saved(q.entries[0])
	}
	return cmp.Or(p.pass("after "+q.do+" "+q.key), err)
}

// saved keeps the bounds of a record that was saved.
func (p *party) saved(e Entry) {
	worker, _ := book.WorkerOf(book.RecordPrefix, e.Key)
	r, err := protocol.DecodeRecord(worker, e)
	require.NoError(p.t, err)
	p.story.mu.Lock()
	defer p.story.mu.Unlock()
	for seq := range r.Bounds {
		of := [2]int{worker, seq}
		p.bounds[of] = times.Later(p.bounds[of], r.BoundOf(seq))
	}
}
