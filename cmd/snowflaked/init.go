package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) initCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "init",
		Short: command.Short("init"),
		Args:  commands.NoArgs,
	}
	var l snowflake.Layout
	layoutFlag(c, &l)
	p.asks(c, func(ctx context.Context, store lease.Store, _ []string) error {
		url := shown(c.Flags().Lookup("store").Value.String())
		err := lease.Init(ctx, store, l)
		was := errors.Is(err, lease.ErrInitialized)
		if err != nil && (!was || errors.Is(err, lease.ErrLayout)) {
			return err
		}
		message := "the store was initialized, and no start waits"
		if was {
			message = "nothing was changed: " + strings.TrimPrefix(err.Error(), "lease: ")
		}
		if p.JSON {
			return p.WriteJSON(struct {
				Store   string `json:"store"`
				Layout  string `json:"layout"`
				Made    bool   `json:"initialized"` // false: it was before
				Message string `json:"message"`     // whether starts wait, and why
			}{url, l.String(), !was, message})
		}
		_, err = fmt.Fprintf(p.Out, "%s: %s, %v\n", url, message, l)
		return err
	})
	return c
}
