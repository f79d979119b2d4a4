package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/audit/leases"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// dialects are the databases of --follow, by the schemes of their URLs.
var dialects = map[string]follow.Dialect{
	"postgres": follow.PostgreSQL, "postgresql": follow.PostgreSQL,
	"mysql": follow.MySQL, "mariadb": follow.MySQL,
	"sqlite": follow.SQLite,
}

// followTable adds the IDs of --query to a, and continues with new rows until ctx ends. After each
// span it writes the metrics. Once it has read a span, it continues after errors.
func (f *auditFlags) followTable(
	ctx context.Context, p *program, s lease.Store, db *sql.DB, a *leases.Comparison, after *snowflake.ID,
) error {
	scheme, _, _ := strings.Cut(f.database, ":")
	fence, err := follow.NewFence(dialects[scheme], f.follow)
	if err != nil {
		return command.Refused("--follow: %w", err)
	}
	r := follow.NewReader(s, db, fence, *after, &follow.Options{Every: f.every, Logger: slog.New(slog.NewTextHandler(p.Err, nil))})
	begun, said := false, 0
	for upTo := *after; ; {
		span, err := r.Next(ctx)
		if err == nil {
			// span.UpTo is below upTo if the fence was set back, or if --from is above the fence.
			upTo = max(upTo, span.UpTo)
			said, err = f.judge(ctx, p, db, a, after, upTo, said)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, follow.ErrRewound): // rows that come again are not counted again
		case err != nil && !begun:
			return err
		case err != nil:
			p.Note("%v; trying again", err)
		default:
			begun = true
		}
	}
}

// judge reads the rows of a span, judges their IDs, and returns how many IDs were issued without a
// lease. If there are more than said, it says so.
func (f *auditFlags) judge(
	ctx context.Context, p *program, db *sql.DB, a *leases.Comparison, after *snowflake.ID, upTo snowflake.ID, said int,
) (int, error) {
	if err := f.readTable(ctx, p, db, a, after, upTo); err != nil {
		return said, err
	}
	*after = upTo
	r, err := a.Report()
	if err != nil {
		return said, err
	}
	if r.Wrong() > said {
		p.Note("%d IDs were issued without a lease, up to %v", r.Wrong(), *after)
	}
	return r.Wrong(), f.writeMetrics(r)
}
