package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) whoisCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "whois ID...",
		Short: command.Short("whois"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("which ID? Write snowflaked whois [--store URL] ID")
			}
			return nil
		},
	}
	p.asks(c, func(ctx context.Context, s lease.Store, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return command.Refused("%w", err)
		}
		return p.writeIssuers(ctx, s, ids)
	})
	return c
}

// errNobody is returned by writeIssuers if no holder issued one of the IDs, or its holder was
// forgotten.
var errNobody = errors.New("one of the IDs has no known issuer")

// issuer is the JSON of the holder that issued an ID. If the holder is not known, Error has the
// reason.
type issuer struct {
	ID     snowflake.ID   `json:"id"`
	Holder *lease.Holding `json:"holder,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// parseIDs reads the IDs of a command line, in any form.
func parseIDs(args []string) ([]snowflake.ID, error) {
	ids := make([]snowflake.ID, len(args))
	for i, arg := range args {
		readings, err := texts.IDs([]string{arg})
		if err != nil {
			return nil, err
		}
		ids[i] = readings[0].IDs[0]
	}
	return ids, nil
}

// writeIssuers writes the holder that issued each ID, or the reason why there is none, one ID a
// line.
func (p *program) writeIssuers(ctx context.Context, s lease.Store, ids []snowflake.ID) error {
	var nobody error
	for _, id := range ids {
		h, err := lease.Whois(ctx, s, id)
		unknown := errors.Is(err, lease.ErrNeverIssued) || errors.Is(err, lease.ErrForgotten) || errors.Is(err, lease.ErrNotReported)
		if err != nil && !unknown {
			return err
		}
		known := issuer{ID: id, Holder: &h}
		line := fmt.Sprintf("%v owner=%s host=%s pid=%d worker=%d clockSeq=%d grantedFrom=%s grantedTo=%s",
			id, texts.Plain(h.Owner), texts.Plain(h.Host), h.PID, h.Worker, h.ClockSeq, texts.Moment(h.From), texts.Moment(h.To))
		if unknown {
			nobody, err = errNobody, withRemedy(err)
			known = issuer{ID: id, Error: err.Error()}
			line = fmt.Sprintf("%v %v", id, err)
		}
		if p.JSON {
			err = p.WriteJSON(known)
		} else {
			_, err = fmt.Fprintln(p.Out, line)
		}
		if err != nil {
			return err
		}
	}
	return nobody
}
