package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var commandAudit = command{
	name:     "audit",
	synopsis: []string{"[FILE...]"},
	summary:  "look for duplicates, strangers, gaps and more in many IDs",
	about: `Reads IDs from files or standard input: one a line or, with -column, from a
column of CSV. It reports
- IDs that come more than once, with their lines;
- numbers that are not of the layout, lie in the future, or are negative;
- for each worker: its first and last ID, how many, the most in a second, spent
  (fully used) ticks, and steps back in the order given;
- workers with two runs of sequence numbers that take turns within a tick (a
  note only, because there are harmless reasons);
- the longest gaps, and whether the lowest bits are uneven.
It keeps two million IDs in memory and the others in temporary files (-tmp).
With -dir it names the leases' holders. If something is wrong, it exits with 1.
`,
	setup: setupAudit,
}

// auditing is an audit and its input.
type auditing struct {
	*audit.Audit
	column   *column
	files    places
	progress *progress
}

func setupAudit(fs *flag.FlagSet) action {
	columnName := fs.String("column", "", "the `NAME|N` of the CSV column with the IDs; N counts from 1")
	separator := fs.String("separator", ",", "the `byte` between columns, or tab")
	dir := fs.String("dir", "", "the `directory` of the leases")
	tmp := fs.String("tmp", "", "the `directory` for temporary files")
	listed := fs.Int("n", 20, "`how many` of each kind to list")
	layout := defineLayout(fs)
	return func(s streams, args []string) error {
		l, err := layout()
		if err != nil {
			return err
		}
		if *listed < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *listed)
		}
		a := auditing{progress: newProgress(s.err)}
		o := audit.Options{Layout: l, Now: time.Now(), Dir: *tmp, Listed: *listed, Where: a.files.name}
		if *dir != "" {
			if err := checkDir(s, "audit", *dir); err != nil {
				return err
			}
			o.Holder = holders(lease.File(*dir))
		}
		if *columnName == "" && isGiven(fs, "separator") {
			return fmt.Errorf("-separator %q has no use without -column", *separator)
		}
		if a.column, err = newColumn(*columnName, *separator); err != nil {
			return err
		}
		inputs, err := openInputs(s, args)
		if err != nil {
			return err
		}
		defer inputs.close()
		if a.Audit, err = audit.New(o); err != nil {
			return err
		}
		r, err := a.run(inputs)
		if err = errors.Join(err, a.Close()); err != nil {
			return failed(err)
		}
		if s.json {
			err = s.writeJSON(r)
		} else {
			writeReport(s, l, r)
		}
		if err == nil && len(r.Wrong) > 0 {
			err = errSaid
		}
		return failed(err)
	}
}

// isGiven reports whether a flag is given.
func isGiven(fs *flag.FlagSet, name string) (given bool) {
	fs.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// holders returns a function that names who issued an ID, by the store's history.
func holders(store lease.Store) func(snowflake.ID) string {
	return func(id snowflake.ID) string {
		h, err := lease.Whois(context.Background(), store, id)
		if err != nil {
			return "unknown"
		}
		return fmt.Sprintf("%s (%s, pid %d)", plain(h.Owner), plain(h.Host), h.PID)
	}
}

// input is a file with its name, which is - for standard input.
type input struct {
	name string
	io.Reader
	closer io.Closer
}

// title names an input in an error.
func (i input) title() string {
	if i.name == "-" {
		return "standard input"
	}
	return i.name
}

type inputs []input

// openInputs opens all files. So a wrong name fails at once.
func openInputs(s streams, names []string) (in inputs, err error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if name == "-" {
			in = append(in, input{name: "-", Reader: s.in})
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			in.close()
			return nil, err
		}
		in = append(in, input{name, f, f})
	}
	return in, nil
}

func (in inputs) close() {
	for _, i := range in {
		if i.closer != nil {
			_ = i.closer.Close()
		}
	}
}

// run reads all inputs and finishes the audit.
func (a *auditing) run(in inputs) (*audit.Report, error) {
	before := int64(0) // lines in all earlier files
	for _, i := range in {
		a.files.add(i.name, before)
		r := newLineReader(i.Reader)
		if err := a.read(r, before); err != nil {
			return nil, fmt.Errorf("%s: %w", i.title(), err)
		}
		before += r.number
	}
	r, err := a.Finish(func(share float64) { a.progress.say("sorting: %.0f%%", 100*share) })
	a.progress.end()
	return r, err
}

// read takes the IDs of one input. before is the number of lines in earlier inputs.
func (a *auditing) read(r *lineReader, before int64) error {
	for header := a.column != nil; r.next(); header = false {
		if r.number&(1<<20-1) == 0 {
			a.progress.say("reading: %d million lines", (before+r.number)>>20)
		}
		at := before + r.number
		var id snowflake.ID
		var text []byte // of the ID
		var err error
		if a.column == nil {
			text = r.text
			id, err = r.id()
		} else {
			if header {
				isHeader, err := a.column.header(r.text)
				if err != nil {
					return err
				}
				if isHeader {
					continue
				}
			}
			id, text, err = a.column.id(r)
		}
		switch {
		case err == nil:
			if err := a.Add(id, at); err != nil {
				return err
			}
		case errors.Is(err, errBlank):
		case isNegative(text):
			a.Negative(at, string(bytes.TrimSpace(text)))
		default:
			a.Unreadable(at, errors.New(plainError(err)))
		}
	}
	return r.err
}

// isNegative reports whether a text is a negative number.
func isNegative(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) < 2 || len(text) > 1+maxDigits || text[0] != '-' {
		return false
	}
	for _, c := range text[1:] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// places names lines by file and number.
type places struct {
	names  []string
	starts []int64 // how many lines come before each file
}

func (p *places) add(name string, start int64) {
	p.names, p.starts = append(p.names, name), append(p.starts, start)
}

func (p *places) name(at int64) string {
	i := sort.Search(len(p.starts), func(i int) bool { return p.starts[i] >= at }) - 1
	if p.names[i] == "-" {
		return fmt.Sprint("line ", at-p.starts[i])
	}
	return fmt.Sprintf("%s:%d", p.names[i], at-p.starts[i])
}

// progress writes twice a second how much is done, if w is a terminal.
type progress struct {
	w    io.Writer // nil if it is not a terminal
	next time.Time
	said bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{next: time.Now().Add(2 * time.Second)}
	if isTerminal(w) {
		p.w = w
	}
	return p
}

func (p *progress) say(format string, args ...any) {
	if p.w == nil || time.Now().Before(p.next) {
		return
	}
	p.next, p.said = time.Now().Add(time.Second/2), true
	fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
}

func (p *progress) end() {
	if p.said {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// writeReport writes a report for people.
func writeReport(s streams, l snowflake.Layout, r *audit.Report) {
	fmt.Fprintf(s.out, "%s of %s\n", plural(int(r.IDs), "ID"), r.Layout)
	if r.IDs > 0 {
		fmt.Fprintf(s.out, "from %s to %s\n", moment(r.First.Time), moment(r.Last.Time))
	}
	for _, w := range r.Wrong {
		fmt.Fprintln(s.out, s.paint(red, "WRONG: "+w))
	}
	if len(r.Wrong) == 0 {
		fmt.Fprintln(s.out, s.paint(green, "nothing is wrong"))
	}
	for _, n := range r.Notes {
		fmt.Fprintln(s.out, "note: "+n)
	}
	if len(r.Repeated) > 0 {
		fmt.Fprintln(s.out, "\nmore than once:")
		for _, d := range r.Repeated {
			fmt.Fprintf(s.out, "  %v of %s, %d times: %s", d.ID, moment(d.Time.Time), d.Count, strings.Join(d.At, ", "))
			if d.Count > int64(len(d.At)) {
				s.out.WriteString(", ...")
			}
			if d.Holder != "" {
				s.out.WriteString("; issued by " + d.Holder)
			}
			s.out.WriteByte('\n')
		}
		more(s, r.Duplicates, len(r.Repeated))
	}
	for _, list := range []struct {
		title string
		audit.Some
	}{{"not of the layout", r.Strangers}, {"from the future", r.Future}, {"negative", r.BeforeEpoch}, {"no IDs", r.Unreadable}} {
		if list.Count > 0 {
			fmt.Fprintf(s.out, "\n%s:\n", list.title)
			for _, f := range list.First {
				fmt.Fprintf(s.out, "  %s: %s\n", f.At, f.Text)
			}
			more(s, list.Count, len(list.First))
		}
	}
	if len(r.Workers) > 0 {
		s.out.WriteByte('\n')
		writeGenerators(s, l, r)
	}
	for i, g := range r.Gaps {
		if i == 0 {
			fmt.Fprintln(s.out, "\nlongest times without an ID:")
		}
		fmt.Fprintf(s.out, "  %s to %s: %v\n", moment(g.From.Time), moment(g.To.Time), g.To.Sub(g.From.Time))
	}
	for _, b := range r.LowBits {
		if b.Uneven(r.IDs) {
			fmt.Fprintf(s.out, "\n%.0f%% of the IDs are %d modulo %d: as many rows would lie on one shard of %d (Options.RandomStart spreads them)\n",
				100*b.Share, b.Fullest, b.Shards, b.Shards)
			break
		}
	}
}

// perSecond writes a rate, with two digits if it is less than ten.
func perSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.2g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// more says how many findings are not listed.
func more(s streams, all int64, listed int) {
	if n := all - int64(listed); n > 0 {
		fmt.Fprintf(s.out, "  and %d more (-n)\n", n)
	}
}

// mostGenerators is how many workers the text lists. JSON lists all.
const mostGenerators = 100

func writeGenerators(s streams, l snowflake.Layout, r *audit.Report) {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	var head []string
	add := func(is bool, name string) {
		if is {
			head = append(head, name)
		}
	}
	add(l.DatacenterBits > 0, "datacenter")
	head = append(head, "worker")
	add(l.ClockSeqBits > 0, "clockseq")
	head = append(head, "IDs", "first", "last", "per second", "spent ticks", "steps back", "more than once", "longest gap", "")
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for i, g := range r.Workers {
		if i == mostGenerators {
			fmt.Fprintf(w, "and %d more: -json has all\n", len(r.Workers)-i)
			break
		}
		if l.DatacenterBits > 0 {
			fmt.Fprintf(w, "%d\t", g.Datacenter)
		}
		fmt.Fprintf(w, "%d\t", g.Worker)
		if l.ClockSeqBits > 0 {
			fmt.Fprintf(w, "%d\t", g.ClockSeq)
		}
		back := fmt.Sprint(g.StepsBack)
		if g.Back != "" {
			back += " (" + g.Back + ")"
		}
		var notes []string
		if g.Duplicates > 0 {
			notes = append(notes, "SHARED?")
		} else if g.TakesTurns() {
			notes = append(notes, "takes turns")
		}
		if g.Holder != "" {
			notes = append(notes, g.Holder)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%.1f%%\t%s\t%d\t%s\t%s\n", g.IDs, moment(g.First.Time), moment(g.Last.Time), perSecond(g.PerSecond),
			100*float64(g.Spent)/float64(g.Ticks), back, g.Duplicates, g.Gap, strings.Join(notes, " "))
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "and %d IDs of other workers, which were not counted one by one\n", r.Others)
	}
}
