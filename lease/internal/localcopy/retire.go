package localcopy

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Retire saves that the copy of a worker ID is gone for good: see lease.Retire. It waits until the
// record has not changed for its holder's window. If refused is not empty, it says why Retire leaves
// r as it is.
func Retire(s book.Line, w *book.Watch, worker int) (r protocol.Record, refused string, err error) {
	if worker < 0 {
		return protocol.Record{Worker: worker}, "nobody has it", nil
	}
	version := ""
	for conflicts := 0; ; {
		asked := s.Read().Moment
		r, err := book.GetRecord(s, worker)
		switch {
		case err != nil:
			return r, "", err
		case r.Retired():
			return r, "", nil
		case r.Version == "":
			return r, "nobody has it", nil
		case !r.Offline:
			return r, "it has no local copy", nil
		case version != "" && version != r.Version:
			return r, "it was renewed, so its local copy is there", nil
		}
		version = r.Version
		now := s.Read()
		c := protocol.Clocks{Own: now.Own}
		if c.Engine, err = s.Engine(); err != nil {
			return r, "", err
		}
		w.Seen.Sees(book.RecordKey(worker), version, now.At, protocol.Healing(r.Layout.Unit))
		if r.Live(w.Silent(r, asked, c)) {
			if err = w.Share(s, []protocol.Record{r}, asked); err != nil {
				return r, "", err
			}
		}
		silent := w.Silent(r, asked, c)
		if !r.Live(silent) {
			if _, err = book.PutRecord(s, r.Retire(c)); !errors.Is(err, driver.ErrConflict) || conflicts == book.MaxConflicts {
				return r, "", err
			}
			conflicts++
			continue
		}
		if err = s.Rest(min(r.WindowLength-silent, r.WindowLength/8) + time.Millisecond); err != nil {
			return r, "", fmt.Errorf("worker %d is retired when its record has not changed for %v: %w", worker, r.WindowLength, err)
		}
	}
}
