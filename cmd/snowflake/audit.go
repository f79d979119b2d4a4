package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func auditCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Look for duplicates, strangers, gaps and more in many IDs",
		Long: `Reads IDs from files or standard input: one a line or, with --column, from a
column of CSV. It reports
- IDs that come more than once, with their lines;
- numbers that are not of the layout, lie in the future, or are negative;
- IDs older than the ID before of their worker, in input order, which is wrong
  if they are over a second older;
- for each worker: its first and last ID, how many, the most in a second, spent
  (fully used) ticks, and steps back;
- workers whose runs of sequence numbers take turns within a tick (a note only);
- the longest gaps, and whether the lowest bits are uneven.
It keeps some two million IDs in memory and the others in a temporary file
(--tmp). With --dir it names the leases' holders. If something is wrong, or there
is nothing to audit, it exits with 1.`,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
	}
	columnName := c.Flags().String("column", "", "the `NAME|N` of the CSV column with the IDs; N counts from 1")
	separator := c.Flags().String("separator", ",", "the `character` between columns, or tab")
	dir := dirFlag(c)
	tmp := c.Flags().String("tmp", "", "the `directory` for the temporary file")
	_ = c.MarkFlagDirname("tmp")
	listed := c.Flags().IntP("count", "n", 20, "how `many` of each kind to list")
	layout := layoutFlags(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		l, err := layout()
		if err != nil {
			return err
		}
		if *listed < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *listed)
		}
		a := auditing{progress: newProgress(s.err)}
		o := audit.Options{Layout: l, Now: time.Now(), Dir: *tmp, Listed: *listed, Where: a.where}
		if *dir != "" {
			o.Holder = holders(lease.File(*dir))
		}
		for flag, d := range map[string]string{"dir": *dir, "tmp": *tmp} {
			if err := checkDir(flag, d); d != "" && err != nil {
				return err
			}
		}
		if c.Flags().Changed("column") {
			if a.column, err = newColumn(*columnName, *separator); err != nil {
				return err
			}
		} else if c.Flags().Changed("separator") {
			return fmt.Errorf("--separator %q has no use without --column", *separator)
		}
		if err := a.open(s, args); err != nil {
			return err
		}
		defer a.closeInputs()
		if a.Audit, err = audit.New(o); err != nil {
			return err
		}
		defer a.Close()
		r, err := a.run()
		if errors.Is(err, errNoColumn) {
			return err
		}
		if err != nil {
			return failed(err)
		}
		for _, note := range []string{a.csv, hint(l, a.Odd(), o.Now)} {
			if note != "" {
				r.Notes = append(r.Notes, note)
			}
		}
		if s.json {
			err = s.writeJSON(r)
		} else {
			writeReport(s, l, r)
		}
		if err == nil && (len(r.Wrong) > 0 || r.IDs == 0) {
			err = errSaid
		}
		return failed(err)
	}
	return c
}

// auditing is an audit and its input.
type auditing struct {
	*audit.Audit
	inputs   []input
	column   *column // nil: one ID a line
	csv      string  // if the lines look like CSV: how to read them
	progress *progress
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
}

// open opens all files. So a wrong name fails at once.
func (a *auditing) open(s *streams, names []string) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if name == "-" {
			a.inputs = append(a.inputs, input{"-", s.in})
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			a.closeInputs()
			return err
		}
		a.inputs = append(a.inputs, input{name, f})
	}
	return nil
}

func (a *auditing) closeInputs() {
	for _, i := range a.inputs {
		if f, ok := i.Reader.(*os.File); ok && i.name != "-" {
			_ = f.Close()
		}
	}
}

// lineBits is how many bits of a place have the line's number. The others have the input's.
const lineBits = 40

// where names a place.
func (a *auditing) where(at int64) string {
	name, line := a.inputs[at>>lineBits].name, at&(1<<lineBits-1)
	if name == "-" {
		return fmt.Sprint("line ", line)
	}
	return fmt.Sprintf("%s:%d", name, line)
}

// run reads all inputs and finishes the audit.
func (a *auditing) run() (*audit.Report, error) {
	for i, in := range a.inputs {
		each := eachLine
		if a.column != nil {
			each = a.column.each
		}
		err := each(in, func(line int64, text string, err error) error {
			if line&(1<<20-1) == 0 {
				a.progress.say("reading: %d million lines", line>>20)
			}
			return a.take(int64(i)<<lineBits|line, text, err)
		})
		if err != nil && in.name == "-" {
			return nil, fmt.Errorf("standard input: %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
	}
	r, err := a.Finish(func(share float64) { a.progress.say("sorting: %.0f%%", 100*share) })
	a.progress.end()
	return r, err
}

// take takes the text that should be an ID, or the error of its line.
func (a *auditing) take(at int64, text string, err error) error {
	id, invalid := idOf(text)
	switch text = strings.TrimSpace(text); {
	case err != nil:
		a.Unreadable(at, errors.New(plainError(err)))
	case invalid == nil:
		return a.Add(id, at)
	case errors.Is(invalid, errBlank):
	case negative.MatchString(text):
		a.Negative(at, text)
	default:
		a.Unreadable(at, errors.New(plainError(invalid)))
		if a.column == nil && a.csv == "" {
			a.csv = csvHint(text)
		}
	}
	return nil
}

var negative = regexp.MustCompile(`^-[0-9]{1,19}$`)

// csvHint says how to read a line of CSV that has an ID. It returns "" for another line.
func csvHint(line string) string {
	for _, separator := range []string{",", ";", "\t"} {
		fields := strings.Split(line, separator)
		for i, field := range fields {
			if _, err := idOf(field); err != nil || len(fields) == 1 {
				continue
			}
			flags := map[string]string{",": "", ";": ` --separator ";"`, "\t": " --separator tab"}[separator]
			return fmt.Sprintf("the lines look like CSV: --column %d%s reads the column that has IDs", i+1, flags)
		}
	}
	return ""
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

// section is a list of the report.
type section struct {
	title string
	audit.Some
}

// writeReport writes a report for people.
func writeReport(s *streams, l snowflake.Layout, r *audit.Report) {
	fmt.Fprintf(s.out, "%s of %s\n", plural(int(r.IDs), "ID"), r.Layout)
	if r.IDs > 0 {
		fmt.Fprintf(s.out, "from %s to %s\n", moment(r.First.Time), moment(r.Last.Time))
	}
	for _, w := range r.Wrong {
		fmt.Fprintln(s.out, s.paint(red, "WRONG: "+w))
	}
	switch {
	case len(r.Wrong) > 0:
	case r.IDs == 0:
		fmt.Fprintln(s.out, "there is nothing to audit")
	default:
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
	for _, list := range []section{{"not of the layout", r.Strangers}, {"from the future", r.Future}, {"negative", r.BeforeEpoch}, {"no IDs", r.Unreadable}, steps(r)} {
		if len(list.First) > 0 {
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

// steps returns the steps back that are worth a look.
func steps(r *audit.Report) section {
	if r.FarBack.Count > 0 {
		return section{"more than a second older than the ID before of the worker", r.FarBack}
	}
	return section{"less than the ID before of the worker", r.StepsBack}
}

// perSecond writes a rate, with two digits if it is less than ten.
func perSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.2g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// more says how many findings are not listed.
func more(s *streams, all int64, listed int) {
	if n := all - int64(listed); n > 0 {
		fmt.Fprintf(s.out, "  and %d more (-n)\n", n)
	}
}

// mostGenerators is how many workers the text lists. JSON lists all.
const mostGenerators = 100

func writeGenerators(s *streams, l snowflake.Layout, r *audit.Report) {
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
	head = append(head, "IDs", "first", "last", "per second", "spent ticks", "steps back", "more than once", "longest gap", "note")
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for i, g := range r.Workers {
		if i == mostGenerators {
			fmt.Fprintf(w, "and %d more: --json has all\n", len(r.Workers)-i)
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
