package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/holding"
)

func auditCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Look for duplicates, strangers, gaps and more in many IDs",
		Long: fmt.Sprintf(`Reads IDs from standard input: one a line or, with --column, from a column of
CSV. It reports
- IDs that come more than once, with their lines;
- numbers that are not of the layout, or lie in the future;
- IDs older than the ID before of their worker, in input order, which is wrong
  if they are over a second older;
- for each worker: its first and last ID, how many, the most in a second, spent
  (fully used) ticks, and steps back;
- the longest times without an ID;
- workers whose sequence numbers take turns within a tick, and low bits that put
  most rows on one shard (notes only).
It keeps all IDs in memory, up to 40 bytes each, and takes %d million. Audit a
larger table in parts, by the ranges of IDs that "snowflake range" prints: no ID
is in two of them. If something is wrong, or there is nothing to audit, the exit
status is 1.`, audit.Most/1_000_000),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("audit reads standard input: write <%s", args[0])
			}
			return nil
		},
	}
	column := c.Flags().String("column", "", "`NAME|N` of the column in CSV: N counts from 1, if the columns have no names")
	separator := c.Flags().String("separator", ",", "the `character` between columns, or tab")
	listed := c.Flags().IntP("count", "n", 20, "how `many` of each kind to list")
	layout := layoutFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *listed < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *listed)
		}
		a := audit.New(*layout, s.now(), *listed)
		take := func(line int, text string) error {
			text = strings.Trim(text, " \t\","+mark)
			if text == "" {
				return nil
			}
			return a.Add(text, line)
		}
		read := eachLine
		if c.Flags().Changed("column") {
			read = func(in io.Reader, f func(int, string) error) error { return eachField(in, *column, *separator, f) }
		}
		if err := read(s.in, take); err != nil {
			return failed(fmt.Errorf("standard input: %w", err))
		}
		r := a.Finish()
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

// mark is the byte order mark with which some programs begin a file.
const mark = "\ufeff"

// eachLine calls f with each line and its number.
func eachLine(in io.Reader, f func(line int, text string) error) error {
	lines := bufio.NewScanner(in)
	n := 1
	for ; lines.Scan(); n++ {
		if err := f(n, lines.Text()); err != nil {
			return err
		}
	}
	if lines.Err() == bufio.ErrTooLong {
		return fmt.Errorf("line %d is longer than 64 KiB", n)
	}
	return lines.Err()
}

// eachField calls f with the field of each record that is in a column, and with its line.
func eachField(in io.Reader, column, separator string, f func(line int, text string) error) error {
	if separator == "tab" {
		separator = "\t"
	}
	r := csv.NewReader(in)
	r.ReuseRecord = true
	size := 0
	if r.Comma, size = utf8.DecodeRuneInString(separator); size != len(separator) {
		return fmt.Errorf("--separator %q is not one character", separator)
	}
	index, err := strconv.Atoi(column)
	if index--; err != nil {
		header, err := r.Read()
		if err != nil && err != io.EOF {
			return err
		}
		named := func(name string) bool { return strings.TrimPrefix(name, mark) == column }
		if index = slices.IndexFunc(header, named); index < 0 {
			return fmt.Errorf("there is no column %q in the header %q", column, header)
		}
	}
	for {
		record, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if index < 0 || index >= len(record) {
			return fmt.Errorf("there is no column %s: the first record has columns 1 to %d", column, len(record))
		}
		line, _ := r.FieldPos(index)
		if err := f(line, record[index]); err != nil {
			return err
		}
	}
}

// writeReport writes a report for people.
func writeReport(out io.Writer, r *audit.Report) {
	fmt.Fprintf(out, "%d IDs of %s\n", r.IDs, r.Layout)
	if r.IDs == 0 {
		fmt.Fprintln(out, "there is nothing to audit")
	} else {
		fmt.Fprintf(out, "from %s to %s\n", holding.Moment(r.First.Time), holding.Moment(r.Last.Time))
	}
	if r.IDs > 0 && len(r.Wrong) == 0 {
		fmt.Fprintln(out, "nothing is wrong")
	}
	for _, w := range r.Wrong {
		fmt.Fprintf(out, "\nWRONG: %s: %d\n", w.What, w.Count)
		for _, f := range w.First {
			fmt.Fprintf(out, "  line %d: %s\n", f.Line, f.Text)
		}
		if w.Count > len(w.First) {
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
	fmt.Fprintln(w, "\ndatacenter\tworker\tclockseq\tIDs\tfirst\tlast\tper second\tspent ticks\tsteps back\tmore than once")
	for _, g := range workers {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f%%\t%d\t%d\n", g.Datacenter, g.Worker, g.ClockSeq, g.IDs,
			holding.Moment(g.First.Time), holding.Moment(g.Last.Time), group(g.PerSecond), 100*float64(g.Spent)/float64(g.Ticks), g.StepsBack, g.Duplicates)
	}
}
