package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var commandWhois = command{
	name:     "whois",
	synopsis: []string{"-dir DIR ID..."},
	summary:  "say who issued an ID, by the history of the leases",
	about: `Says which process had an ID's worker ID at the ID's time, one ID a line. The
directory is the one that package lease's file store uses, or "snowflake new
-dir"; its records also have the layout. The exit status is 1 if nobody can have
issued one of the IDs, or if its issuer is older than the history.
`,
	setup: setupWhois,
}

func setupWhois(fs *flag.FlagSet) action {
	dir := fs.String("dir", "", "the `directory` of the leases")
	return func(s streams, args []string) error {
		if len(args) == 0 {
			return errors.New("whois takes IDs")
		}
		if err := checkDir(s, "whois", *dir); err != nil {
			return err
		}
		ids := make([]snowflake.ID, len(args))
		for i, arg := range args {
			var err error
			if ids[i], err = snowflake.ParseID(arg); err != nil {
				return err
			}
		}
		return whois(s, lease.File(*dir), ids)
	}
}

// checkDir refuses a -dir that is not a directory.
func checkDir(_ streams, command, dir string) error {
	if dir == "" {
		return fmt.Errorf("%s takes -dir, the directory of the leases", command)
	}
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("-dir: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("-dir: %s is not a directory", dir)
	}
	return nil
}

func whois(s streams, store lease.Store, ids []snowflake.ID) error {
	var said error
	for _, id := range ids {
		h, unknown, err := holding.Whois(context.Background(), store, id)
		if err != nil {
			return failed(err)
		}
		if unknown != nil {
			said = errSaid
		}
		switch {
		case s.json && unknown != nil:
			err = s.writeJSON(holding.Issuer{ID: id, Error: plainError(unknown)})
		case s.json:
			err = s.writeJSON(holding.Issuer{ID: id, Holder: &h})
		case unknown != nil:
			_, err = fmt.Fprintf(s.out, "%v %s\n", id, s.paint(red, plainError(unknown)))
		default:
			_, err = fmt.Fprint(s.out, holding.Line(id, h))
		}
		if err != nil {
			return failed(err)
		}
	}
	return failed(said)
}
