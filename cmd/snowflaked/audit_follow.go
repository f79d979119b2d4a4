package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// dialects are the databases of --follow, by the schemes of their URLs.
var dialects = map[string]follow.Dialect{
	"postgres": follow.PostgreSQL, "postgresql": follow.PostgreSQL,
	"mysql": follow.MySQL, "mariadb": follow.MySQL,
	"sqlite": follow.SQLite,
}

// follow reads the IDs of the table, and continues with new rows until ctx ends. After each span it
// writes the metrics. Once it has read a span, it continues after errors.
func (t *tableAudit) follow(ctx context.Context, s lease.Store) error {
	scheme, _, _ := strings.Cut(t.database, ":")
	fence, err := follow.NewFence(dialects[scheme], t.fence)
	if err != nil {
		return command.Refused("--follow: %w", err)
	}
	if err := t.reach(ctx); err != nil {
		return err
	}
	r := follow.NewReader(s, t.db, fence, t.after, &follow.Options{Every: t.every, Logger: slog.New(slog.NewTextHandler(t.Err, nil))})
	begun, said := false, 0
	for upTo := t.after; ; {
		span, err := r.Next(ctx)
		if err == nil {
			// span.UpTo is below upTo if the fence was set back, or if --from is above the fence.
			upTo = max(upTo, span.UpTo)
			said, err = t.judge(ctx, upTo, said)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, follow.ErrRewound): // rows that come again are not counted again
		case err != nil && !begun:
			return err
		case err != nil:
			t.Note("%v; trying again", err)
		default:
			begun = true
		}
	}
}

// judge reads the rows of a span, judges their IDs, and returns how many IDs were issued without a
// lease. If there are more than said, it says so.
func (t *tableAudit) judge(ctx context.Context, upTo snowflake.ID, said int) (int, error) {
	if err := t.read(ctx, upTo); err != nil {
		return said, err
	}
	t.after = upTo
	r, err := t.found.Report()
	if err != nil {
		return said, err
	}
	if r.Wrong() > said {
		t.Note("%d IDs were issued without a lease, up to %v", r.Wrong(), t.after)
	}
	return r.Wrong(), t.writeMetrics(r)
}
