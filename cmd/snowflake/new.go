package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
)

var commandNew = command{
	name:     "new",
	synopsis: []string{"[-n N] [-decode] [-worker W] [-datacenter D]"},
	summary:  "print new IDs",
	about: `Prints N new IDs, one a line.

HAZARD: two invocations at the same time with the same -worker can issue the
same IDs. So can two that follow each other within a tick of the layout, or when
the clock was set back in between. This is for trying things out; a service uses
the library, with a lease.

` + aboutLayouts(),
	setup: setupNew,
}

func setupNew(fs *flag.FlagSet) action {
	n := fs.Int("n", 1, "`how many` IDs")
	decode := fs.Bool("decode", false, "print the fields behind each ID")
	worker := fs.Int("worker", 0, "the `worker` ID")
	datacenter := fs.Int("datacenter", 0, "the `datacenter`, for layouts that have one")
	layout := defineLayout(fs)
	return func(s streams, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("new takes no arguments beside flags, got %q", args[0])
		}
		if *n < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *n)
		}
		l, err := layout()
		if err != nil {
			return err
		}
		g, err := snowflake.New(*worker, &snowflake.Options{Layout: l, Datacenter: *datacenter})
		if err != nil {
			return err
		}
		return failed(issue(s, g, *n, *decode))
	}
}

// issue writes n new IDs. It takes no more of them at once than a tick has, so
// that they are out before it waits for the next tick.
func issue(s streams, g *snowflake.Generator, n int, decode bool) error {
	const mostBits = 12
	batch := make([]snowflake.ID, 1<<min(g.Layout().SequenceBits, mostBits))
	for n > 0 {
		k, err := g.Fill(context.Background(), batch[:min(n, len(batch))])
		for _, id := range batch[:k] {
			if decode {
				fmt.Fprintln(s.out, id, g.Decode(id))
			} else {
				fmt.Fprintln(s.out, id)
			}
		}
		if err != nil {
			return err
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
