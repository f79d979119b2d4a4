package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func auditCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Look for duplicates, strangers, gaps and more in many IDs",
		Long: fmt.Sprintf(`Reads IDs from files or standard input: a list, a JSON array, what psql or mysql
print; with --column a column of CSV or a table, with --field a field of JSON
objects. Text that is compressed by gzip is read, too. It reports
- whether the IDs were rounded, and by what: by JavaScript, a spreadsheet or the
  like. Then nothing else that it says is about the IDs that were issued;
- IDs that come more than once, with their lines;
- lines that are not an ID, and IDs that are not of the layout, or of the future;
- IDs older than the ID before of their worker, in input order, which is wrong
  if they are over a second older;
- for each worker: its first and last ID, how many, the most in a second, spent
  (fully used) ticks, and steps back;
- the longest times without an ID;
- workers whose sequence numbers take turns within a tick, and low bits that put
  most rows on one shard (notes only).
A header, NULL, quotes, brackets and an L after a number are passed over. The
IDs are read in the form that most of the first thousand have.

It keeps all IDs in memory, 16 bytes each and a tenth more (1 million take 45 MB
in all, 10 million 185 MB), and takes %d million. Audit a larger table in parts,
by the ranges of IDs that "snowflake range" prints: no ID is in two of them.`, audit.Most/1_000_000),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	options := inputFlags(c)
	listed := c.Flags().IntP("count", "n", 20, "how `many` of each kind to list")
	layout := layoutFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *listed < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *listed)
		}
		r, err := s.audit(audit.New(*layout, s.now(), *listed), *options, args)
		if err != nil {
			return err
		}
		if s.json {
			if err := s.writeJSON(r); err != nil {
				return err
			}
		} else {
			writeReport(s.out, r)
		}
		if len(r.Wrong) > 0 || r.IDs == 0 {
			return errSaid
		}
		return nil
	}
	return c
}

// audit gives the IDs of the inputs that args name to a, and returns its report.
func (s *streams) audit(a *audit.Audit, o input.Options, args []string) (*audit.Report, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // the IDs have no pointers, so collecting garbage costs little
	t := taker{Audit: a}
	nulls := 0
	err := s.eachInput(args, func(name string, in io.Reader) error {
		if t.before = t.line; len(args) > 1 {
			a.File(name, t.before)
		}
		n, err := input.Read(in, o, t.take)
		nulls += n
		return err
	})
	if err == nil {
		err = t.decide()
	}
	if err != nil {
		return nil, err
	}
	r := a.Finish()
	if t.form != decimal && r.IDs > 0 {
		r.Passed = append(r.Passed, "read as "+t.form)
	}
	if len(t.headers) > 0 {
		r.Passed = append(r.Passed, "passed over the header "+strings.Join(t.headers, ", "))
	}
	if nulls > 0 {
		r.Passed = append(r.Passed, fmt.Sprintf("passed over NULL, %d in all", nulls))
	}
	return r, nil
}

// taker gives words to an audit, in the form that most of the first words have.
type taker struct {
	*audit.Audit
	before, line int          // lines of the files before, and the last line, counted through all files
	held         []input.Word // the first words, until the form is known
	form         string
	parse        func(string) (snowflake.ID, error)
	headers      []string
}

// enough is how many words decide the form.
const enough = 1000

func (t *taker) take(w input.Word) error {
	w.Line += t.before
	t.line = w.Line
	if t.parse != nil {
		return t.add(w)
	}
	if t.held = append(t.held, w); len(t.held) < enough {
		return nil
	}
	return t.decide()
}

// decide chooses the form, and adds the words that waited for it.
func (t *taker) decide() error {
	if t.parse != nil {
		return nil
	}
	var sample []string
	for _, w := range t.held {
		if w.Err == nil && (!w.First || len(t.held) == 1) { // the first may be a header
			sample = append(sample, w.Text)
		}
	}
	t.form, t.parse = texts.Reader(sample)
	for _, w := range t.held {
		if err := t.add(w); err != nil {
			return err
		}
	}
	t.held = nil
	return nil
}

func (t *taker) add(w input.Word) error {
	if w.Err != nil {
		t.Skip(w.Err.Error(), w.Line)
		return nil
	}
	id, err := t.parse(w.Text)
	switch {
	case err == nil:
		return t.Add(id, w.Line)
	case w.First && isLetter(w.Text[0]):
		t.headers = append(t.headers, w.Text)
	default:
		t.Skip(strings.TrimPrefix(err.Error(), "snowflake: "), w.Line)
	}
	return nil
}

// writeReport writes a report for people.
func writeReport(out io.Writer, r *audit.Report) {
	fmt.Fprintf(out, "%d IDs of %s\n", r.IDs, r.Layout)
	if r.IDs == 0 {
		fmt.Fprintln(out, "there is nothing to audit")
	} else {
		fmt.Fprintf(out, "from %s to %s\n", holding.Moment(r.First.Time), holding.Moment(r.Last.Time))
	}
	for _, passed := range r.Passed {
		fmt.Fprintln(out, passed)
	}
	if r.IDs > 0 && len(r.Wrong) == 0 {
		fmt.Fprintln(out, "nothing is wrong")
	}
	for _, w := range r.Wrong {
		fmt.Fprintf(out, "\nWRONG: %s: %d\n", w.What, w.Count)
		for _, f := range w.First {
			fmt.Fprintf(out, "  %s: %s\n", strings.TrimSpace(fmt.Sprint(f.File, " line ", f.Line)), f.Text)
		}
		if len(w.First) > 0 && w.Count > len(w.First) {
			fmt.Fprintf(out, "  and %d more (-n)\n", w.Count-len(w.First))
		}
	}
	if len(r.Workers) > 0 {
		writeWorkers(out, r.Workers)
	}
	if len(r.Gaps) > 0 {
		fmt.Fprintln(out, "\nlongest times without an ID:")
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(out, "  %s to %s: %v\n", holding.Moment(g.From.Time), holding.Moment(g.To.Time), g.To.Sub(g.From.Time))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(out, "\nnote: %s\n", note)
	}
}

func writeWorkers(out io.Writer, workers []audit.Worker) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\ndatacenter\tworker\tclockSeq\tIDs\tfirst\tlast\tper second\tspent ticks\tsteps back\tmore than once")
	for _, g := range workers {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f%%\t%d\t%d\n", g.Datacenter, g.Worker, g.ClockSeq, g.IDs,
			holding.Moment(g.First.Time), holding.Moment(g.Last.Time), group(g.PerSecond), 100*float64(g.Spent)/float64(g.Ticks), g.StepsBack, g.Duplicates)
	}
}
