package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) watermarkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "watermark",
		Short: command.Short("watermark"),
		Args:  commands.NoArgs,
	}
	p.asks(c, func(ctx context.Context, s lease.Store, _ []string) error { return p.writeWatermark(ctx, s) })
	return c
}

// watermark has the JSON of the server's answer to GET /watermark.
type watermark struct {
	ID     snowflake.ID `json:"id"`
	HeldBy *keeper      `json:"heldBy,omitempty"`
}

// keeper is the holder that keeps a watermark back.
type keeper struct {
	Worker int    `json:"worker"`
	Owner  string `json:"owner"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Behind string `json:"behind"` // as protobuf writes durations
	Why    string `json:"why"`
}

// errHeld is matched by the error of writeWatermark if a holder keeps the watermark back.
var errHeld = errors.New("the watermark is held back")

// writeWatermark writes the watermark of a store. If a holder keeps the watermark back, JSON names
// the holder, and so does the error, which matches errHeld.
func (p *program) writeWatermark(ctx context.Context, s lease.Store) error {
	m, err := lease.Watermark(ctx, s)
	if err != nil {
		return withRemedy(err)
	}
	shown := watermark{ID: m.ID}
	if h := m.HeldBy; h != nil {
		behind := time.Since(h.Layout.Decode(m.ID).Time).Round(time.Millisecond)
		shown.HeldBy = &keeper{h.Worker, h.Owner, h.Host, h.PID, fmt.Sprintf("%.3fs", behind.Seconds()), m.Why}
		err = fmt.Errorf("%w, by %v: %s: %v", errHeld, behind, m.Why, h)
	}
	if p.JSON {
		return errors.Join(p.WriteJSON(shown), err)
	}
	_, failed := fmt.Fprintln(p.Out, m.ID)
	return errors.Join(failed, err)
}
