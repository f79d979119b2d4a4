package audit

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// bad reports whether something is wrong with the IDs.
func (r *Report) bad() bool { return len(r.Wrong) > 0 || r.Leases != nil && len(r.Leases.Faults()) > 0 }

// Print writes the report, and returns the error of its command: if something is wrong, or if there
// are no IDs although some are wanted. It lists at most most groups of strangers.
func (r *Report) Print(s *command.Streams, most int, wanted bool) error {
	if s.JSON {
		all := *r
		if r.Leases != nil {
			all.Wrong = append(slices.Clip(r.Wrong), r.Leases.Faults()...)
		}
		if err := s.WriteJSON(all); err != nil {
			return err
		}
	} else {
		r.write(s.Out, most)
	}
	if r.bad() || wanted && r.IDs == 0 {
		return command.ErrSaid
	}
	return nil
}

func (r *Report) write(out io.Writer, most int) {
	fmt.Fprintf(out, "%d IDs of %s\n", r.IDs, r.Layout)
	switch {
	case r.IDs == 0:
		fmt.Fprintln(out, "there is nothing to audit")
	case !r.First.IsZero():
		fmt.Fprintf(out, "from %s to %s\n", texts.Moment(r.First.Time), texts.Moment(r.Last.Time))
	}
	for _, passed := range r.Passed {
		fmt.Fprintln(out, passed)
	}
	if r.IDs > 0 && !r.bad() {
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
		fmt.Fprintf(out, "  %s to %s: %v\n", texts.Moment(g.From.Time), texts.Moment(g.To.Time), g.To.Sub(g.From.Time))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(out, "\nnote: %s\n", note)
	}
	if r.Leases != nil {
		fmt.Fprintln(out)
		r.Leases.Write(out, most)
	}
	if r.UpTo > 0 {
		fmt.Fprintf(out, "\nread up to %v\n", r.UpTo)
	}
}

func writeWorkers(out io.Writer, workers []Worker) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\ndatacenter\tworker\tclockSeq\tIDs\tfirst\tlast\tper second\tspent ticks\tsteps back\tmore than once")
	for _, g := range workers {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f%%\t%d\t%d\n", g.Datacenter, g.Worker, g.ClockSeq, g.IDs,
			texts.Moment(g.First.Time), texts.Moment(g.Last.Time), texts.Number(g.PerSecond),
			100*float64(g.Spent)/float64(g.Ticks), g.StepsBack, g.Duplicates)
	}
}
