package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var commandWhois = command{
	name:     "whois",
	synopsis: []string{"-dir DIR ID..."},
	summary:  "say who issued an ID, by the history of the leases",
	about: `Says which process had an ID's worker ID at the time that the ID bears, one ID a
line. The directory is one of package lease's file store, or of "snowflake new
-lease"; the layout is that of its records. The exit status is 1 if nobody can
have issued one of the IDs, or if its issuer was forgotten.
`,
	setup: setupWhois,
}

// issued is who issued an ID, as JSON.
type issued struct {
	ID     snowflake.ID   `json:"id"`
	Holder *lease.Holding `json:"holder,omitempty"`
	Error  string         `json:"error,omitempty"`
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
	var unknown error
	for _, id := range ids {
		h, err := lease.Whois(context.Background(), store, id)
		switch {
		case err == nil:
		case errors.Is(err, lease.ErrNeverIssued), errors.Is(err, lease.ErrForgotten):
			unknown = errSaid
		default:
			return failed(err)
		}
		switch {
		case s.json && err != nil:
			err = s.writeJSON(issued{ID: id, Error: plainError(err)})
		case s.json:
			err = s.writeJSON(issued{ID: id, Holder: &h})
		case err != nil:
			_, err = fmt.Fprintf(s.out, "%v %s\n", id, s.paint(red, plainError(err)))
		default:
			_, err = fmt.Fprintf(s.out, "%v owner=%s host=%s pid=%d worker=%d clockseq=%d from=%s to=%s\n",
				id, plain(h.Owner), plain(h.Host), h.PID, h.Worker, h.ClockSeq, moment(h.From), moment(h.To))
		}
		if err != nil {
			return failed(err)
		}
	}
	return failed(unknown)
}
