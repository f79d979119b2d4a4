// Package command provides the parts that the commands of both programs share: streams, flags,
// errors, exit statuses and the reading of files. What depends on cobra is in
// cmd/snowflake/commands.
package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/answers"
)

// The exit statuses.
const (
	OK      = 0
	Failure = 1
	Usage   = 2 // an argument was refused
)

// Streams are the inputs and outputs of a command. A command need not check the errors of Out: Out
// keeps its first error, and Exit finds it when it flushes.
type Streams struct {
	Program string
	In      io.Reader
	Out     *bufio.Writer
	Err     io.Writer
	Now     func() time.Time

	JSON bool // print JSON

	Watched bool // standard error is a terminal, so progress is shown there
	Shows   bool // standard output is a terminal
}

// New returns the streams of a program.
func New(program string, in io.Reader, out, err io.Writer, now func() time.Time) *Streams {
	return &Streams{
		Program: program, In: in, Out: bufio.NewWriterSize(out, 64<<10), Err: &shared{to: err}, Now: now,
		Watched: isTerminal(err), Shows: isTerminal(out),
	}
}

// shared is a writer for any number of goroutines.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(b)
}

// WriteJSON writes v as one line.
func (s *Streams) WriteJSON(v any) error { return Failed(json.NewEncoder(s.Out).Encode(v)) }

// Note writes one line for people to standard error, without the passwords of URLs. It may be
// called by any number of goroutines.
func (s *Streams) Note(format string, args ...any) {
	fmt.Fprintln(s.Err, s.Program+": "+password.ReplaceAllString(fmt.Sprintf(format, args...), "${1}"+Redacted+"@"))
}

// failure is an error with another cause than the arguments, such as a failed read or write. The
// arguments are the cause of all other errors.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Failed returns err as a failure, or nil if err is nil.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// said is an error that was reported, in the output or the log.
type said struct{ error }

func (s said) Unwrap() error { return s.error }

// Said returns err marked as reported, so that Exit does not write it.
func Said(err error) error { return said{err} }

// ErrSaid is the failure of a command whose output is a negative answer.
var ErrSaid = Said(Failed(errors.New("the answer is no")))

// Exit flushes the output, writes the error of a command, and returns the exit status.
func (s *Streams) Exit(err error) int {
	isSaid := errors.As(err, new(said))
	if flushed := s.Out.Flush(); flushed != nil && (err == nil || isSaid) {
		err, isSaid = Failed(flushed), false
	}
	switch {
	case err == nil:
		return OK
	case errors.Is(err, syscall.EPIPE): // the reader of standard output has ended
	case !isSaid:
		text := strings.TrimPrefix(err.Error(), "snowflake: ")
		if m := unknown.FindStringSubmatch(text); m != nil {
			word, _ := strconv.Unquote(m[1])
			text = strings.Replace(text, m[1], strconv.Quote(Harmless(word)), 1)
		}
		s.Note("%s", s.withPrograms(text))
	}
	if errors.As(err, new(failure)) {
		return Failure
	}
	return Usage
}

var (
	// negative matches pflag's error for a negative number among the arguments.
	negative = regexp.MustCompile(`^unknown shorthand flag: '[0-9]' in (-[0-9]+)$`)
	// single matches pflag's error for a long flag with one hyphen, up to the flag's value.
	single = regexp.MustCompile(`^unknown shorthand flag: '.' in (-[a-z]{2}[-a-z]*)`)
	// unknown matches cobra's error for a command that does not exist.
	unknown = regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for `)
	// harmless matches a word, or the scheme of a URL at the start of another text.
	harmless = regexp.MustCompile(`^([-\w./]*$|[a-z]+://)`)
	// password matches a URL up to its last @, from its password on or, without a colon, its user.
	password = regexp.MustCompile(`([a-z]://(?:[^\s/:@]*:)?)\S*@`)
	// shorthand matches pflag's error for an unknown flag with one hyphen.
	shorthand = regexp.MustCompile(`^unknown shorthand flag: '.' in (-.*)$`)
	// store matches pflag's error for a flag of snowflaked.
	store = regexp.MustCompile(`^unknown flag: --(store|retire|database|query|worker|since|from|follow|metrics-file)$`)
	// parsed matches the beginning of an error of package strconv, before the reason.
	parsed = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": `)
	// span matches the error for an invalid duration, such as one without a unit.
	span = regexp.MustCompile(` time: [a-z ]+ duration "[^"]*"$`)
)

// FlagError explains an error of the flags.
func FlagError(program, command string, err error) error {
	text := err.Error()
	if m := negative.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s is negative, and no ID is", m[1])
	}
	if m := single.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("there is no flag %s: flags have two hyphens, as in --json; --help explains them", m[1])
	}
	if m := shorthand.FindStringSubmatch(text); m != nil {
		text, err = "unknown flag", fmt.Errorf("unknown flag: %s", m[1])
	}
	if m := store.FindStringSubmatch(text); m != nil && program == "snowflake" {
		return fmt.Errorf("snowflake needs no store, and has no --%s: \"snowflaked %s --help\" has it", m[1], command)
	}
	switch {
	case span.MatchString(text):
		return fmt.Errorf("%w: want a time such as 10s", err)
	case strings.HasPrefix(text, "unknown flag"):
		return fmt.Errorf("%w; --help explains the flags", err)
	}
	if parsed.MatchString(text) {
		return errors.New(parsed.ReplaceAllString(text, ""))
	}
	return err
}

// Redacted stands in errors and logs for a text that may be a password.
const Redacted = "xxxxx"

// Harmless returns a word unchanged. From any other text, which may be a URL with a password
// anywhere in it, it returns at most the scheme.
func Harmless(text string) string {
	shown := harmless.FindString(text)
	if shown != text {
		shown += Redacted
	}
	return shown
}

// Other is a command that only the other program has, and the error of running it here.
type Other struct{ program, Name, Short string }

func (o Other) Error() string {
	return fmt.Sprintf("%s is a command of %s: \"%[2]s %[1]s --help\" says more", o.Name, o.program)
}

// others are the commands that only one of the programs has.
var others = []Other{
	{"snowflaked", "serve", "Issue IDs over HTTP and gRPC (the default of snowflaked)"},
	{"snowflaked", "init", "Open a new store, once, so that the first start does not wait"},
	{"snowflaked", "workers", "List who has leased which worker ID, and until when"},
	{"snowflaked", "whois", "Say who issued an ID, by the history of the leases"},
	{"snowflaked", "watermark", "Print the watermark: every ID issued later is greater"},
	{"snowflaked", "health", "Ask the server whether it is alive: a container's health check"},
	{"snowflake", "decode", "Print the fields of IDs, or annotate the IDs in a log"},
	{"snowflake", "identify", "Say which layout the IDs most likely have, and why"},
	{"snowflake", "range", "Print the range of the IDs of a span of time"},
	{"snowflake", "layout", "Say which bits and how many IDs a layout has, or list the layouts"},
	{"snowflake", "follows", "Say whether a table may continue with IDs of another layout"},
}

// suggested matches a command that cobra's error for an unknown one suggests.
var suggested = regexp.MustCompile(`(?m)^\t([a-z]+)$`)

// withPrograms writes the name of its program before each command that an error suggests.
func (s *Streams) withPrograms(text string) string {
	return suggested.ReplaceAllStringFunc(text, func(line string) string {
		name := strings.TrimSpace(line)
		for _, o := range s.Others() {
			if o.Name == name {
				return "\t" + o.program + " " + name
			}
		}
		return "\t" + s.Program + " " + name
	})
}

// Others returns the commands that this program lacks.
func (s *Streams) Others() []Other {
	return slices.DeleteFunc(slices.Clone(others), func(o Other) bool { return o.program == s.Program })
}

// OtherProgram returns the name of the program that has the Others.
func (s *Streams) OtherProgram() string { return s.Others()[0].program }

// Short returns the one-line description of a command that only one program has. The help of both
// shows it.
func Short(name string) string {
	return others[slices.IndexFunc(others, func(o Other) bool { return o.Name == name })].Short
}

// Version returns the version of the program's module.
func Version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return v
}

// Built returns the versions of the program and of Go, and the platform.
func Built() string {
	return fmt.Sprintf("%s %s %s/%s", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Decimal is the usual form of an ID.
const Decimal = "decimal"

// WriteDecoded writes an ID and its fields.
func (s *Streams) WriteDecoded(l snowflake.Layout, id snowflake.ID, form string) {
	if s.JSON {
		_ = s.WriteJSON(answers.Decode(id, form, l)) // s.Out remembers the error
		return
	}
	fmt.Fprintf(s.Out, "%v %v", id, l.Decode(id))
	if form != Decimal {
		fmt.Fprintf(s.Out, " form=%q", form)
	}
	fmt.Fprintln(s.Out)
}

// Issue writes the new IDs that n asks for. It takes at most the IDs of one tick at once, and
// writes them before it waits for the next tick.
func (s *Streams) Issue(ctx context.Context, g *snowflake.Generator, n NewFlags) error {
	const mostBits = 12
	batch := make([]snowflake.ID, 1<<min(g.Layout().SequenceBits, mostBits))
	for n.ids > 0 {
		k, err := g.Fill(ctx, batch[:min(n.ids, len(batch))])
		for _, id := range batch[:k] {
			if n.decode || s.JSON {
				s.WriteDecoded(g.Layout(), id, Decimal)
			} else {
				fmt.Fprintln(s.Out, id)
			}
		}
		if err != nil {
			return Failed(err)
		}
		if err := s.Out.Flush(); err != nil {
			return Failed(err)
		}
		n.ids -= k
	}
	return nil
}
