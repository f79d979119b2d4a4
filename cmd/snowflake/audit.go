package main

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/cli/holding"
	"github.com/seed-5394e6b1/snowflake/internal/cli/input"
	"github.com/seed-5394e6b1/snowflake/internal/cli/strangers"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func auditCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Look for duplicates, strangers, gaps and more in many IDs",
		Long: fmt.Sprintf(`Reads IDs from files or standard input: a list, a JSON array, what psql or mysql
print; with --column a column of CSV or a table, with --field a field of JSON
objects. Text that is compressed by gzip is read, too. It reports
- whether the IDs were rounded, for example by JavaScript or a spreadsheet. If
  they were, the rest of the report is not about the IDs that were issued;
- IDs that occur more than once, with their lines;
- lines that are not an ID, and IDs that are not of the layout, or of the future;
- IDs over a second older than the previous ID of their worker, in input order: a
  note, or with --order a fault;
- for each worker: its first and last ID, how many, the most in a second, spent
  (fully used) ticks, and steps back;
- the longest times without an ID;
- workers whose sequence numbers take turns within a tick, and low bits that put
  most rows on one shard (notes only).
Headers, NULL, quotes, brackets, separators of thousands and what MongoDB, Java and
spreadsheets write around a number are skipped. The IDs are read in the form that
most of the first thousand have.

With --store it also compares the IDs with the leases of a directory. The times of
a worker ID's holders do not overlap. So an ID outside of all of them shows that a
program issues IDs without a lease, even if no ID has occurred twice yet. The
report says how many, when, and who had the worker ID before and after. Give it
only IDs that were issued under this store. IDs that are older than the history,
or than the first lease, are counted separately, and so are those of --worker:
worker IDs that are kept out of the leases. For other stores, and to read a table,
use "snowflaked audit".

It keeps all IDs in memory, 16 bytes each and a tenth more (1 million take 45 MB
in all, 10 million 185 MB), and accepts at most %d million. Audit a larger table in
parts, by the ranges of IDs that "snowflake range" prints: they do not overlap.`, audit.Most/1_000_000),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	options := inputFlags(c)
	ordered := c.Flags().Bool("order", false, "the IDs are in the order of issue: an older one is a fault")
	listed := c.Flags().IntP("count", "n", 20, "how `many` of each kind to list")
	layout := layoutFlag(c)
	store, kept := storeFlag(c), strangers.Flags(c.Flags())
	c.PreRunE = store.mustExist
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *listed < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *listed)
		}
		var leases *strangers.Audit
		if store.dir != "" {
			o, err := kept()
			if err != nil {
				return err
			}
			leases, err = strangers.New(func() (*lease.History, error) {
				return lease.ReadHistory(c.Context(), lease.File(store.dir))
			}, o)
			if err != nil {
				return failed(err)
			}
			if is := leases.Layout(); c.Flags().Changed("layout") && is != *layout {
				return fmt.Errorf("--layout: the leases are of the layout %v", is)
			}
			*layout = leases.Layout()
		} else if f := c.Flags(); f.Changed("worker") || f.Changed("datacenter") || f.Changed("since") {
			return errors.New("--worker, --datacenter and --since are for --store")
		}
		a := audit.New(*layout, s.now(), *listed, leases)
		a.Ordered = *ordered
		r, err := s.audit(a, *options, args)
		if err != nil {
			return err
		}
		if s.json {
			if err := s.writeJSON(r); err != nil {
				return err
			}
		} else {
			writeReport(s.out, r)
			if r.Leases != nil {
				fmt.Fprintln(s.out)
				r.Leases.Write(s.out, *listed)
			}
		}
		if len(r.Wrong) > 0 || r.IDs == 0 || r.Leases != nil && r.Leases.Wrong() > 0 {
			return errSaid
		}
		return nil
	}
	return c
}

// audit adds the IDs of the inputs that args name to a, and returns its report.
func (s *streams) audit(a *audit.Audit, o input.Options, args []string) (*audit.Report, error) {
	// The IDs have no pointers, so frequent garbage collection costs little.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	ids := input.IDs{Add: a.Add, Skip: a.Skip}
	err := s.eachInput(args, func(name string, in io.Reader) error {
		if len(args) > 1 {
			a.File(name, ids.Line)
		}
		return ids.Read(in, o)
	})
	if err == nil {
		err = ids.Finish()
	}
	if err != nil {
		return nil, err
	}
	r, err := a.Finish()
	if err != nil {
		return nil, failed(err)
	}
	if ids.Form != decimal && r.IDs > 0 {
		r.Passed = append(r.Passed, "read as "+ids.Form)
	}
	if len(ids.Headers) > 0 {
		r.Passed = append(r.Passed, "skipped the header "+strings.Join(ids.Headers, ", "))
	}
	if ids.Nulls > 0 {
		r.Passed = append(r.Passed, fmt.Sprintf("skipped NULL values: %d", ids.Nulls))
	}
	return r, nil
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
	if r.IDs > 0 && len(r.Wrong) == 0 && (r.Leases == nil || r.Leases.Wrong() == 0) {
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
			holding.Moment(g.First.Time), holding.Moment(g.Last.Time), group(g.PerSecond),
			100*float64(g.Spent)/float64(g.Ticks), g.StepsBack, g.Duplicates)
	}
}
