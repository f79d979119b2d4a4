package audit

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// bad reports whether something is wrong with the IDs.
func (r *Report) bad() bool { return len(r.Wrong) > 0 || r.Leases != nil && r.Leases.Wrong() > 0 }

// Print writes the report, and returns the error of its command: if something is wrong, or if there
// are no IDs although some are wanted. It lists at most most groups of strangers.
func (r *Report) Print(s *command.Streams, most int, wanted bool) error {
	if s.JSON {
		all := *r
		if r.Leases != nil {
			all.Wrong = append(slices.Clip(r.Wrong), r.Leases.faults()...)
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
		r.Leases.write(out, most)
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

// write writes the report for people, with at most most groups of each kind.
func (r *LeaseReport) write(out io.Writer, most int) {
	fmt.Fprintf(out, "%d of %d IDs were issued by a holder of their worker ID\n", r.Held, r.IDs)
	if n := Count(r.Strangers); n > 0 {
		fmt.Fprintf(out, "\nWRONG: %s: %d\n", strange, n)
		for _, g := range r.Strangers[:min(len(r.Strangers), most)] {
			fmt.Fprintf(out, "  worker %d%s: %d between %s and %s, from %d to %d\n",
				g.Worker, g.seq(), g.IDs, texts.Moment(g.From.Time), texts.Moment(g.To.Time), g.First, g.Last)
			fmt.Fprintf(out, "    before them %s\n    after them %s\n", ended(g.Before), begun(g.After))
		}
		more(out, len(r.Strangers), most)
		fmt.Fprintln(out, "  A program issues them without a lease: one with New and a number of its own, an old deployment,\n"+
			"  or a copied machine. If the store was restored from a backup, or lost writes in a failover, they may\n"+
			"  be from the time that it lost.")
	}
	if n := Count(r.Leased); n > 0 {
		fmt.Fprintf(out, "\nWRONG: %s: %d\n", notKeptOut, n)
		for _, g := range r.Leased[:min(len(r.Leased), most)] {
			fmt.Fprintf(out, "  worker %d%s: %d between %s and %s; %s. IDs may repeat\n",
				g.Worker, g.seq(), g.IDs, texts.Moment(g.From.Time), texts.Moment(g.To.Time), ended(g.Before))
		}
		more(out, len(r.Leased), most)
	}
	if r.Foreign > 0 {
		fmt.Fprintf(out, "\nWRONG: %s: %d\n", unfitting, r.Foreign)
	}
	for _, of := range []struct {
		what   string
		groups []Group
	}{
		{"IDs of holders with a local copy that may not have reported to the store yet", r.NotReported},
		{"IDs whose issuers the history no longer has", r.Forgotten},
		{"IDs before the first lease that the store knows", r.Earlier},
		{"IDs of worker IDs that are kept out of the leases", r.KeptOut},
		{"IDs of other datacenters", r.Elsewhere},
	} {
		if n := Count(of.groups); n > 0 {
			fmt.Fprintf(out, "\nnot judged: %s: %d\n", of.what, n)
		}
		for _, g := range of.groups[:min(len(of.groups), most)] {
			fmt.Fprintf(out, "  worker %d%s: %d between %s and %s\n", g.Worker, g.seq(), g.IDs, texts.Moment(g.From.Time), texts.Moment(g.To.Time))
		}
		more(out, len(of.groups), most)
	}
	if r.Passed > 0 {
		fmt.Fprintf(out, "\nskipped: earlier IDs (--since): %d\n", r.Passed)
	}
	for _, text := range r.Problems {
		fmt.Fprintf(out, "\nnote: parts of the store cannot be read, and the IDs of these workers count as forgotten: %s\n", text)
	}
}

func more(out io.Writer, n, most int) {
	if n > most {
		fmt.Fprintf(out, "  and %d more (-n)\n", n-most)
	}
}

func (g Group) seq() string {
	if g.ClockSeq == 0 {
		return ""
	}
	return fmt.Sprintf(", clock sequence %d", g.ClockSeq)
}

func ended(h *lease.Holding) string {
	if h == nil {
		return "no process held it, as far as the store knows"
	}
	return fmt.Sprintf("%s was granted it until %s", who(h), texts.Moment(h.To))
}

func begun(h *lease.Holding) string {
	if h == nil {
		return "no process has held it"
	}
	return fmt.Sprintf("%s was granted it from %s", who(h), texts.Moment(h.From))
}

// who names the process of a holding.
func who(h *lease.Holding) string {
	return fmt.Sprintf("%s (%s, pid %d)", texts.Plain(h.Owner), texts.Plain(h.Host), h.PID)
}
