package leases

import (
	"fmt"
	"io"

	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Write writes the report for people, with at most most groups of each kind.
func (r *Report) Write(out io.Writer, most int) {
	fmt.Fprintf(out, "%d of %d IDs were issued by a holder of their worker ID\n", r.Held, r.IDs)
	if n := Count(r.Strangers); n > 0 {
		fmt.Fprintf(out, "\nWRONG: %s: %d\n", strange, n)
		for _, g := range r.Strangers[:min(len(r.Strangers), most)] {
			fmt.Fprintf(out, "  worker %d%s: %d between %s and %s, from %d to %d\n",
				g.Worker, g.seq(), g.IDs, texts.Moment(g.First.Time), texts.Moment(g.Last.Time), g.FirstID, g.LastID)
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
				g.Worker, g.seq(), g.IDs, texts.Moment(g.First.Time), texts.Moment(g.Last.Time), ended(g.Before))
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
		{"IDs from before their worker's history begins, or whose records were lost", r.Forgotten},
		{"IDs before the first lease that the store knows", r.Earlier},
		{"IDs of worker IDs that are kept out of the leases", r.KeptOut},
		{"IDs of other datacenters", r.Elsewhere},
	} {
		if n := Count(of.groups); n > 0 {
			fmt.Fprintf(out, "\nnot judged: %s: %d\n", of.what, n)
		}
		for _, g := range of.groups[:min(len(of.groups), most)] {
			fmt.Fprintf(out, "  worker %d%s: %d between %s and %s\n", g.Worker, g.seq(), g.IDs, texts.Moment(g.First.Time), texts.Moment(g.Last.Time))
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
